"""The asg source or the asg consumer, in a process that may die before or after any call that it makes.

    python -m tests.torture.faulty_nodes '{"role": "consumer", "brokers": ..., "aws": ..., "cluster": ..., "die": 0.03, ...}'

`die`: chance of that, for each call to AWS, to the cluster, and for each append to the log. `mutant`: what else is wrong with it.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
from kubernetes import client as official

from agents.processes.source_asg import node_template
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.units import Seconds
from streams.clients.aws.aws_client import AwsOptions, connect
from streams.clients.aws.ec2_instances import read_table
from streams.clients.kube.api import Api
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.executing.holder_lease import HolderLease, leases
from streams.consumers.nodes import group_size
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.consumers.nodes.node_removal import NodeRemoval, NodeWorld, RemovalOptions
from streams.errors import EdgeError, LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord, Place
from streams.log_context import LogContext
from streams.sources.asg.asg_source import AsgSource, GroupSelection
from streams.topics import Topics
from tests.torture import faulty_clock
from tests.torture.processes import end_with_any_thread

REGION = "eu-central-1"
POLL = 0.4
"""Seconds of real time between two looks of the source."""
OPTIONS = RemovalOptions(delay=Seconds(0.4), gone_margin=Seconds(5.0), hooks=Seconds(1.0))
TIMEOUT = Seconds(3.0)
assert boto3, "imported so that a forked process has it"


class Deadly:
    """Passes calls on, and ends the process before or after one of them now and then."""

    def __init__(self, target: Any, die: float, role: str) -> None:
        self._target, self._die, self._role = target, die, role

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return self._mortal(name, found) if callable(found) else found

    def _mortal(self, name: str, found: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            self._maybe(f"{self._role} before {name}")
            answer = found(*arguments, **more)
            self._maybe(f"{self._role} after {name}")
            return answer

        return call

    def _maybe(self, where: str) -> None:
        if random.random() < self._die / 2:  # seeded anew in each process; a generator of this module would be the same in all
            os.write(2, f"died: {where}\n".encode())
            os._exit(9)


class DeadlyLog(KafkaLog):
    """The log; a process may die before or after what it appends."""

    die, role = 0.0, ""

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        mortal = Deadly(super(), self.die, self.role)
        return mortal.append(list(records))  # type: ignore[no-any-return]  # as the log has it


def source(told: Mapping[str, Any], context: LogContext) -> None:
    """The real source in its own loop."""
    aws = Deadly(connect(AwsOptions(REGION, told["aws"], TIMEOUT)), told["die"], "source")
    made = AsgSource(aws, context, GroupSelection(tags={"owner": ""}), node_template)  # type: ignore[arg-type]  # it stands for it
    while True:
        now = datetime.fromtimestamp(faulty_clock.now(told["epoch"], told["speed"]) / 1000, UTC)
        with suppress(EdgeError, LogUnavailable):
            made.poll(now)
        time.sleep(POLL)


def consumer(told: Mapping[str, Any], context: LogContext) -> None:
    """One of two real consumers that share a Lease."""
    if told["mutant"]:
        MUTANTS[told["mutant"]]()
    aws = Deadly(connect(AwsOptions(REGION, told["aws"], TIMEOUT)), told["die"], "consumer")
    cluster = Api(_api(told["cluster"]))
    nodes, buffers = (Deadly(made(cluster), told["die"], "consumer") for made in (NodeDrainClient, CapacityBufferClient))
    world = NodeWorld(aws, nodes, buffers, lambda: datetime.now(UTC))  # type: ignore[arg-type]  # they stand for them
    api = Api(_api(told["leases"]), timeout=TIMEOUT)
    name = f"{told['instance']}-{os.getpid()}"
    lease = HolderLease(leases(api, "ullage"), "ullage-asg", name) if told["held"] else None
    asg_consumer(context, world, OPTIONS, lease).run(threading.Event())


def _api(url: str) -> official.ApiClient:
    return official.ApiClient(official.Configuration(host=url))


def _undrained() -> None:
    """A consumer that terminates at once."""

    def act(self: NodeRemoval, plan: NodeRemovalPlanned) -> object:
        instance = self._instance(plan)
        return self._terminate(plan, instance) if hasattr(instance, "lifecycle") else instance  # type: ignore[arg-type]

    NodeRemoval.act = act  # type: ignore[method-assign,assignment]  # the fault itself


def _beyond() -> None:
    """A consumer that lets a group grow by one more than was decided."""
    grow = group_size.raise_size

    def more(aws: Any, plan: ScaleUpPlanned, permit: Any, *, protect: bool) -> Any:
        return grow(aws, replace(plan, after=plan.after + 1), permit, protect=protect)

    group_size.raise_size = more


MUTANTS = {"terminates undrained": _undrained, "grows too far": _beyond}


def main() -> None:
    told = json.loads(sys.argv[1])
    end_with_any_thread()
    os.environ.update(told["environment"])
    read_table()
    DeadlyLog.die, DeadlyLog.role = told["die"], told["role"]
    log = DeadlyLog(KafkaConnection(told["brokers"]))
    context = LogContext.of(log, Topics(told["prefix"], told["partitions"]), told["name"])
    (source if told["role"] == "source" else consumer)(told, context)


if __name__ == "__main__":
    main()
