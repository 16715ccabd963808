"""Node groups in the closed loop of the simulated cluster: the sources, the stage and the consumer are the real ones."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.commands.status import waiting_work
from agents.verify.verification import verify
from schemas.decisions.node_updates import (
    ExpanderAsked,
    NodeRemovalPlanned,
    NodeScalingHalted,
    RemovalReason,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
)
from schemas.facts.nodes import NodeGroupSeen, NodeTaint, ScalingActivityFailed
from schemas.facts.scheduled_pods import PodToleration
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Seconds
from streams.clients.expander_client import ExpanderClient
from streams.simulated.cluster_spec import ContainerTemplate, Shortage, SimulatedNodeGroup, amounts
from tests.support.asg_scene import Killed, Mortal
from tests.support.expander_server import chosen, expander_server
from tests.support.simulated_fleet import START, Fleet, deployment

QUICK: Mapping[str, object] = {"nodes.unneeded_time": 60, "nodes.delay_after_add": 30}


def group(name: str = "pool", **more: Any) -> SimulatedNodeGroup:
    """Nodes of 4 cores and 16 GiB that take 90 seconds."""
    return SimulatedNodeGroup(name, "m5.xlarge", **more)


def test_a_group_grows_for_waiting_pods_and_its_nodes_go_when_the_pods_have_gone() -> None:
    fleet = Fleet([group()], settings=QUICK)
    for _ in range(10):
        fleet.cluster.submit(deployment("job", 0), lasts=600)
    fleet.run(minutes=1)
    assert fleet.cloud.desired == {"pool": 3}  # four pods and a kube-proxy to a node of four cores
    assert fleet.waiting == 10
    fleet.run(minutes=2)
    assert fleet.waiting == 0
    assert max(fleet.cluster.waited) <= 90 + 15  # the boot, and what it took to see, decide and start
    fleet.run(minutes=20)
    assert fleet.cloud.desired == fleet.cloud.running == {"pool": 0}
    [grown] = fleet.events(ScaleUpPlanned, "node-updates")
    assert (grown.before, grown.after) == (0, 3)
    assert [one.instance for one in fleet.events(NodeRemovalPlanned, "node-updates")] == sorted(
        one.id for one in fleet.cloud.leaving
    )
    assert fleet.cluster.moved == 0


def test_pods_are_moved_within_their_disruption_budget_and_all_run_in_the_end() -> None:
    fleet = Fleet([group(desired=4)], [deployment("web", 4, cpu=1.0, keep=3)], QUICK)
    fleet.run(minutes=1)
    assert [len(pods) for pods in by_node(fleet).values()] == [1, 1, 1, 1]  # spread by the scheduler
    least = 4
    for _ in range(240):
        fleet.run()
        least = min(least, sum(pod.ready for pod in fleet.cluster.pods_by_name.values()))
    assert fleet.cloud.desired == {"pool": 1}
    assert fleet.waiting == 0
    assert least == 3
    assert fleet.marked == []


def test_taints_and_selectors_decide_which_group_grows() -> None:
    tainted = group("gpu", labels={"kind": "gpu"}, taints=(NodeTaint("gpu", "yes", "NoSchedule"),))
    allowed = deployment("train", 2, node_selector={"kind": "gpu"}, tolerations=(PodToleration("gpu", "Exists"),))
    fleet = Fleet([group(), tainted], [deployment("web", 2), allowed], QUICK)
    fleet.run(minutes=4)
    assert fleet.cloud.running == {"pool": 1, "gpu": 1}
    assert {name.split("-")[0]: sorted({pod.split("-")[0] for pod in pods}) for name, pods in by_node(fleet).items()} == {
        "pool": ["web"],
        "gpu": ["train"],
    }


def test_another_group_grows_within_seconds_when_the_cloud_has_no_machines() -> None:
    begin = int(START.timestamp())
    away = group("cheap", shortages=(Shortage(begin, begin + 3600),))
    larger = SimulatedNodeGroup("other", "m5.2xlarge", zone="eu-central-1b")
    fleet = Fleet([away, larger], [deployment("web", 4)], QUICK)
    fleet.run(minutes=10, until=lambda: bool(fleet.events(ScalingActivityFailed, "node-group-changes")))
    fleet.run(minutes=0.5)
    first, second = fleet.events(ScaleUpPlanned, "node-updates")
    assert (first.group, second.group) == ("cheap", "other")
    assert second.at - first.at <= timedelta(seconds=20)
    fleet.run(minutes=3)
    assert fleet.waiting == 0


def test_a_shortage_concerns_its_group_alone_and_is_given_up_until_it_is_over() -> None:
    """Pods that only the one group takes wait for an hour: its size follows what exists, ends no machine, and never ratchets."""
    begin = int(START.timestamp())
    away = group("away", desired=1, labels={"kind": "away"}, shortages=(Shortage(begin, begin + 3600),))
    other = SimulatedNodeGroup("other", "m5.xlarge", zone="eu-central-1b", desired=2)
    bound = deployment("bound", 4, cpu=3.0, node_selector={"kind": "away"})
    fleet = Fleet([away, other], [bound], QUICK)
    wanted = set[int]()
    fleet.run(minutes=25, until=lambda: wanted.add(fleet.cloud.desired["away"]) is not None)
    assert fleet.cloud.running == {"away": 1, "other": 0}, "what nobody needs goes, whatever is the matter with the other group"
    for _ in range(4):
        fleet.cluster.submit(deployment("job", 0), lasts=600)
    fleet.run(minutes=5)
    assert fleet.cloud.running["other"] == 1
    assert wanted == {1, 4}
    assert {(one.before, one.after) for one in fleet.events(SizeCorrectionPlanned, "node-updates")} == {(4, 1)}
    outcomes = [one for one in fleet.events(ActionFinished, "outcomes") if one.action is Action.CORRECT_SIZE]
    assert {one.result for one in outcomes} == {Result.DONE}
    said = [one for one in fleet.events(NodeScalingHalted, "node-updates") if one.group == "away"]
    assert said[0].reason.startswith("it is left out, because its last growth failed with InsufficientInstanceCapacity")
    row, pods = waiting_work.rows(fleet.context, START + timedelta(minutes=30))
    assert (row.kind, row.name, row.state, row.warns) == ("node group", "away", "out", True)
    assert (pods.kind, pods.state, pods.warns) == ("pods", "waiting", True)
    fleet.run(minutes=75)
    assert fleet.waiting == 0
    assert fleet.cloud.running["away"] == 4


def test_a_group_that_was_changed_by_hand_is_followed() -> None:
    fleet = Fleet([group(desired=1)], [deployment("web", 4)], QUICK)
    fleet.run(minutes=2)
    fleet.cloud.resize_by_hand("pool", 3)
    fleet.run(minutes=1)
    assert [one.desired for one in fleet.events(NodeGroupSeen, "node-group-changes")] == [1, 3]
    fleet.run(minutes=8)
    assert fleet.cloud.desired == fleet.cloud.running == {"pool": 1}
    assert fleet.waiting == 0


def test_pods_that_no_group_takes_are_told_of_and_wait() -> None:
    fleet = Fleet([group()], [deployment("huge", 1, cpu=64.0)], QUICK)
    fleet.run(minutes=5)
    assert fleet.cloud.desired == {"pool": 0}
    [refused] = [one for one in fleet.events(ScaleRefused, "node-updates") if one.code == "NoGroupFits"]
    assert "NodeResourcesFit" in refused.reason


def test_the_cheaper_group_grows_where_prices_are_known_and_asked_for() -> None:
    dear = SimulatedNodeGroup("dear", "m5.2xlarge", price=2.0)
    cheap = SimulatedNodeGroup("cheap", "m5.4xlarge", zone="eu-central-1b", price=0.4)
    pods = [deployment("web", 8)]
    by_price = Fleet([dear, cheap], pods, {**QUICK, "nodes.expanders": "price"})
    by_price.run(minutes=1)
    assert by_price.cloud.desired == {"dear": 0, "cheap": 1}
    by_waste = Fleet([dear, cheap], pods, QUICK)
    by_waste.run(minutes=1)
    assert by_waste.cloud.desired == {"dear": 1, "cheap": 0}


class Fuse:
    """Every so many calls a process ends, before the call or after it."""

    def __init__(self, every: int) -> None:
        self.every, self.calls, self.after = every, 0, False

    @property
    def fuse(self) -> int | None:
        """The call at which the next one ends."""
        self.after = bool(self.calls // self.every % 2)
        return (self.calls // self.every + 1) * self.every - 1


@pytest.mark.parametrize("every", [pytest.param(n, marks=[] if n == 13 else pytest.mark.slow) for n in (9, 11, 13, 17, 20, 25)])
def test_processes_that_die_at_every_step_leave_no_mark_and_end_no_machine_in_vain(every: int) -> None:
    fuse = Fuse(every)
    fleet = Fleet([group(desired=4, least=1)], [deployment("web", 4, keep=3)], QUICK, wrap=lambda target: Mortal(target, fuse))
    fleet.died = Killed  # type: ignore[assignment]  # it is no Exception, so that nobody takes it for one
    for _ in range(20):
        fleet.cluster.submit(deployment("job", 0), lasts=300)
    fleet.run(minutes=30, until=lambda: fleet.cloud.desired == {"pool": 9})
    fleet.run(minutes=60, until=lambda: fleet.cloud.running == {"pool": 1})
    fuse.every = 1 << 40
    fleet.run(minutes=30, until=lambda: fleet.cloud.running == {"pool": 1})
    fleet.run(minutes=5)
    assert fleet.deaths > 5
    assert fleet.waiting == 0
    assert fleet.marked == []
    assert fleet.cloud.desired == fleet.cloud.running == {"pool": 1}
    ended = [one.id for one in fleet.cloud.leaving]
    plans = {one.id: one for one in fleet.events(NodeRemovalPlanned, "node-updates")}
    outcomes = [one for one in fleet.events(ActionFinished, "outcomes") if one.decision in plans]
    assert RemovalReason.UNREGISTERED not in {one.reason for one in plans.values()}  # a restart forgets no node
    done = [plans[one.decision].instance for one in outcomes if one.result is Result.DONE]
    assert sorted(done) == sorted(ended)  # each machine that ended was planned, and said to be done, once


def by_node(fleet: Fleet) -> dict[str, list[str]]:
    """The names of pods by node."""
    found: dict[str, list[str]] = {node.name: [] for node in fleet.cluster.nodes}
    for pod in fleet.cluster.pods_by_name.values():
        if pod.node is not None:
            found[pod.node].append(pod.name.name)
    return found


def test_the_group_grows_that_a_server_chose_over_tls_and_a_replay_needs_no_server(tmp_path: Path) -> None:
    """Least waste would take the smaller nodes of `near`, and gets the choice only once the server is gone."""
    groups = [SimulatedNodeGroup("near", "m5.large"), group("far"), group("other")]
    settings = {**QUICK, "nodes.expanders": "grpc,least-waste", "nodes.expander_timeout": 30, "nodes.scale_down": False}
    with expander_server(tmp_path, lambda *_: chosen("far", "nobody's")) as server:
        fleet = Fleet(groups, settings=settings, expander=ExpanderClient(server.url, server.certificate, Seconds(20.0)))
        fleet.cluster.submit(deployment("job", 0), lasts=6000)
        fleet.run(minutes=3)
        assert fleet.waiting == 0
        assert fleet.cloud.desired == {"near": 0, "far": 1, "other": 0}
        assert len(server.questions) == 1
    for _ in range(4):
        fleet.cluster.submit(deployment("job", 0), lasts=6000)
    fleet.run(minutes=3)
    assert fleet.waiting == 0
    assert fleet.cloud.desired == {"near": 1, "far": 1, "other": 0}
    asked = fleet.events(ExpanderAsked, "node-updates")
    first, *_ = grown = fleet.events(ScaleUpPlanned, "node-updates")
    assert first.because["external expander"] == {"question": asked[0].id, "chose": ["far"]}
    assert [one.code for one in fleet.events(ScaleRefused, "node-updates") if one.code == "ExpanderFailed"]
    assert grown[-1].group == "near"
    assert verify(fleet.context, fleet.pipeline).ok


def test_a_node_boots_for_as_long_as_its_group_says() -> None:
    fleet = Fleet([group(boot=Seconds(300.0))], [deployment("web", 1)], QUICK)
    fleet.run(minutes=7)
    [waited] = fleet.cluster.waited
    assert 300 <= waited <= 320


@pytest.mark.parametrize("profile", ["ullage", "upstream"])
def test_a_node_stays_whose_pods_fit_nowhere_else_because_of_their_init_containers(profile: str) -> None:
    """CA#4125. A pod takes 1 core while it runs, and 2.5 before: its init container beside the sidecar that started first."""
    proxy = ContainerTemplate("proxy", None, amounts(0.8, 256), sidecar=True)
    setup = ContainerTemplate("setup", None, amounts(1.7, 256), lasts=60)
    fleet = Fleet([group()], [deployment("web", 3, cpu=0.2, init=(proxy, setup))], {**QUICK, "nodes.profile": profile})
    fleet.run(minutes=10)
    sizes = set[int]()
    for _ in range(20):
        fleet.run(minutes=3)
        sizes.add(fleet.cloud.desired["pool"])
    assert (sizes, fleet.waiting, fleet.cluster.moved) == ({3}, 0, 0)
