"""Why a node went, on the real scheduler: `why NODE` leads from its removal through the resizes that emptied it to the usage.

All stages, the resizer and the asg consumer are the real ones, and kwok's kubelets carry the resizes out.
"""

import numpy as np

from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.updates.update_settings import UpdateSettings
from agents.run import pipeline
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings, TopicSettings
from agents.why.explanation import explain
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.facts.usage import MetricsScraped
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Fraction, Seconds
from streams.clients.kube.cluster_client import KubernetesClient
from streams.consumers.resizer import resizer
from tests.controlplane.group_scene import GroupScene
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.aws_double import AwsDouble, aws, aws_server
from tests.support.node_scene import CLUSTER

__all__ = ["aws", "aws_server"]
STEPS = 120
"""An hour."""
SETTINGS = Settings(
    topics=TopicSettings(partitions=1),
    updates=UpdateSettings(warm_up=Seconds(60.0), lifetime=Seconds(600.0), cool_down=Seconds(60.0), min_replicas=1),
    nodes=ScalerSettings(unneeded_time=Seconds(120.0), delay_after_add=Seconds(60.0)),
)


class WholeScene(GroupScene):
    """The scene with all stages, which read and write the log themselves, and policies under which pods are resized soon."""

    def __init__(self, plane: Plane, world: World, aws: AwsDouble, client: KubernetesClient) -> None:
        super().__init__(plane, world, aws, ("web",))
        self.runner = Runner(pipeline.stages(SETTINGS), self.context)
        self.resizer = resizer(self.context, client)
        self.publish(ControlChanged(self.now(), CLUSTER, Mode.APPLY, budget=Fraction(1.0)), "control")
        self.publish(VerticalPolicyChanged(self.now(), f"{CLUSTER}/*", "1", UpdateMode.IN_PLACE_OR_RECREATE), "rules")

    def step(self) -> None:
        """Half a minute passes."""
        self._cloud()
        self.run.now += 30_000
        self.source.poll(self.now())
        self._scrape()
        ticks.append(self.log, self.topics, self.run.now)
        self.runner.run()
        self.resizer.poll_once()
        self.consumer.poll_once()
        self.sizes["web"].append(self.aws.desired("web"))

    def _scrape(self) -> None:
        """Each pod uses a twentieth of a core."""
        names = [pod["metadata"]["name"] for pod in self.pods("web") if pod["status"].get("phase") == "Running"]
        if names:
            workload = f"{CLUSTER}/{self.world.namespace}/Deployment/web"
            cores, memory = np.full(len(names), 0.05), np.full(len(names), 64.0 * 2**20)
            rows = (workload,) * len(names), tuple(names), ("app",) * len(names)
            self.publish(MetricsScraped(self.now(), CLUSTER, *rows, cores=cores, memory=memory), "pod-metrics")

    @property
    def removal(self) -> NodeRemovalPlanned | None:
        """The first plan for a node to go."""
        records = self.log.poll({(self.topics.wire("node-updates"), 0): 0}, limit=1_000_000)
        return next((event for event in map(self.codec.decode, records) if isinstance(event, NodeRemovalPlanned)), None)


def test_why_a_node_went_leads_through_the_resizes_of_its_pods_to_their_usage(
    plane: Plane, world: World, aws: AwsDouble, client: KubernetesClient
) -> None:
    scene = WholeScene(plane, world, aws, client)
    scene.group("web", {"cpu": "1200m", "memory": "256Mi"}, template=aws.template("of-web", "c5.large"))
    with scene.watching():
        scene.scale(2, "web")
        scene.until(2, "web", within=1200.0)
        for _ in range(STEPS):
            scene.step()
            if scene.aws.desired("web") == 1 and scene.removal is not None:
                break
        scene.step()
    assert scene.removal is not None
    explanation = explain(scene.context, scene.removal.node)
    assert [str(outcome.numbers["result"]) for outcome in explanation.outcomes] == ["done"]
    chain = explanation.decision
    for what in ("resize planned", "requests recommended", "usage scraped"):
        chain = next(cause for cause in chain.causes if cause.what == what)
    assert chain.numbers["highest cpu"] == "50m"
