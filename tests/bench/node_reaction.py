"""`python -m tests.bench.node_reaction`: how long a pod waits until AWS is asked for a node, through all real processes.

A Kafka, `ullage source clock`, `worker`, `source asg` and `consumer asg`, each in its process, and moto's server for AWS. Each
pod needs a node of its own and comes at a random time. What is counted goes from the append of the fact that it waits to the
moment at which AWS has carried `SetDesiredCapacity` out. The kube source is left out: its facts are published here.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from schemas.catalogue import Event
from schemas.facts.sources import SourceReported
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction, Seconds
from streams.admin import topic_admin
from streams.broker import Broker, BrokerSettings
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster
from streams.topics import Topics
from tests.support.aws_double import REGION
from tests.support.node_scene import CLUSTER, controller, pod, shape, topic
from tests.torture.node_cloud import RAISE, RecordingAws

ROUNDS = 60
PREFIX = "reaction"
GOAL = "<= 2.5"
_LONGEST = 60.0
_KEYS = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
_ENVIRONMENT = {**_KEYS, "AWS_EC2_METADATA_DISABLED": "true", "MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}

Put = Callable[[str, float, str, str], None]


class ReactionScene:
    """The log, and AWS with one group of nodes of four cores."""

    def __init__(self, brokers: str, rounds: int) -> None:
        self.brokers, self.topics = brokers, Topics(PREFIX, 1)
        connection = KafkaConnection(brokers)
        with topic_admin.connect(connection) as admin:
            topic_admin.apply(admin, topic_admin.plan(admin, self.topics.specs()))
        self.log = KafkaLog(connection)
        self.context = LogContext(self.log, self.topics, Codec(self.topics), CLUSTER)
        self.aws = RecordingAws()
        self.aws.reset()
        self.aws.names = ("pool",)
        self.aws.group("pool", most=rounds + 10, tags={"owner": "bench"}, template=self.aws.template("pool-t", "c5.xlarge"))

    def publish(self, *events: Event) -> None:
        """Facts of this moment."""
        now = datetime.now(UTC)
        for event in events:
            name = topic(event).replace("_", "-")
            made = replace(event, at=now)  # type: ignore[type-var]  # each of these facts has a time
            self.log.append([self.context.codec.encode(made, topic=name, key=CLUSTER, partition=0, source="/ullage/source/kube")])

    def reaction(self, number: int) -> float:
        """Seconds from a waiting pod to the call."""
        before, begun = len(self.aws.acts), time.time()
        self.publish(pod(f"p{number}", created=int(begun * 1000)))
        while time.time() < begun + _LONGEST:
            raised = [act for act in self.aws.acts[before:] if act.action == RAISE]
            if raised:
                return raised[0].at - begun
            time.sleep(0.01)
        raise TimeoutError(f"no group grew for pod {number} within {_LONGEST:g} s")


@contextmanager
def processes(scene: ReactionScene, cluster: str, folder: Path) -> Iterator[None]:
    """All that is at work."""
    settings = {
        "log.brokers": scene.brokers, "topics.prefix": PREFIX, "topics.partitions": "1", "cluster.name": CLUSTER,
        "cluster.url": cluster, "aws.region": REGION, "aws.endpoint": scene.aws.url, "aws.groups": '["0:500:pool"]',
    }  # fmt: skip
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with ExitStack() as stack:
        for command in (("source", "clock"), ("worker",), ("source", "asg"), ("consumer", "asg")):
            output = stack.enter_context((folder / f"{'-'.join(command)}.log").open("wb"))
            line = [str(Path(sys.executable).parent / "ullage"), *command, *flags]
            process = subprocess.Popen(line, cwd=folder, env={**os.environ, **_ENVIRONMENT}, stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield


def reactions(brokers: str, folder: Path, rounds: int = ROUNDS) -> list[float]:
    """The time of each of so many pods; the first one, which waits for the processes to start, is not among them."""
    os.environ.update(_ENVIRONMENT)
    scene, chance = ReactionScene(brokers, rounds), random.Random(7)
    now = datetime.now(UTC)
    OperatorLog(scene.context).publish(ControlChanged(now, CLUSTER, Mode.APPLY, budget=Fraction(1.0)))
    scene.publish(SourceReported(now, CLUSTER, "kube", ("scheduling-changes",), Seconds(3600.0)), shape(cpu=3500), controller())
    cluster, found = SimulatedCluster(name=CLUSTER, seed=1, nodes=(), deployments=(), start=now), list[float]()
    with SimulatedServer(cluster) as server, processes(scene, server.url, folder):
        for number in range(rounds + 1):
            found.append(scene.reaction(number))
            time.sleep(chance.uniform(2.0, 4.0))
    scene.log.close()
    scene.aws.close()
    return found[1:]


def measure(put: Put, brokers: str) -> None:
    """Both rows."""
    with tempfile.TemporaryDirectory() as folder:
        took = reactions(brokers, Path(folder))
    put("nodes: a waiting pod's fact to SetDesiredCapacity, default window: p50", float(np.percentile(took, 50)), "s", "")
    put("nodes: a waiting pod's fact to SetDesiredCapacity, default window: p99", float(np.percentile(took, 99)), "s", GOAL)


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<100} {value:>12,.3f} {unit:<6} {goal}\n")
        sys.stdout.flush()

    with Broker(BrokerSettings(heap_mb=512)) as broker:
        measure(show, broker.bootstrap)
