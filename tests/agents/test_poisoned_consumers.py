"""Nothing that stands in the log ends a consumer of node groups, autoscalers or the metrics API: it is acted on or set aside.

What it would act on is as the good ones of these records expect, so that they reach what acts.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.catalogue import CATALOGUE
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from streams.codec.dead_letters import FORGED
from streams.codec.event_codec import Codec
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.scale_subresource import scaler
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import ehpa_manifests, examples, ticks
from tests.support.asg_scene import CLUSTER, START, NodeScene, pod
from tests.support.attested_plans import with_attestations
from tests.support.aws_double import AwsDouble, aws, aws_server
from tests.support.corrupt_events import EVENTS, Poison
from tests.support.metrics_api_scene import MetricsApiScene
from tests.support.scaled_world import DeadlyLog, KillSwitch, ScaledWorld

__all__ = ["aws", "aws_server"]

NAMES = Topics(partitions=1)
POISON = Poison(NAMES)
LATER = examples.AT + timedelta(seconds=5)


def readable(record: Record | NewRecord) -> bool:
    try:
        Codec(NAMES).decode(record)  # type: ignore[arg-type]  # a place does not matter
    except BadRecord:
        return False
    return True


def changed(record: NewRecord, **texts: str) -> NewRecord:
    """With other words for some of its texts."""
    value = record.value or b""
    for before, after in texts.items():
        value = value.replace(before.replace("__", "-").encode(), after.encode())
    return replace(record, value=value)


def unreadable(log: MemoryLog, wire: str) -> int:
    """Dead letters about what cannot be read; a plan whose poisoned id names no turn is called forged, too."""
    return sum(FORGED not in letter.headers for letter in log.poll({(wire, 0): 0}))


NODE_RECORDS = st.lists(POISON.records("node-updates", "outcomes", "control"), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(records=NODE_RECORDS)
def test_no_record_ends_the_consumer_of_node_groups(aws: AwsDouble, records: list[NewRecord]) -> None:
    aws.reset()
    scene = NodeScene(aws, desired=3)
    scene.nodes.add("ip-10-0-0-1", scene.instances[0], pod("a"))
    ours = [changed(r, prod=CLUSTER, workers__a="pool", i__0a1b2c3d=scene.instances[0]) for r in records]
    at = START.strftime("%Y-%m-%dT%H").encode()
    ours = [replace(r, value=(r.value or b"").replace(b"2026-01-02T03", at)) for r in ours]
    scene.log.append(with_attestations(ours, scene.topics))
    for _ in range(4):
        scene.tick(150.0)
        scene.consumer.poll_once()
        scene.nodes.finish()
    wire = scene.topics.wire("node-updates")
    bad = sum(not readable(r) for r in ours if r.topic == wire)
    assert unreadable(scene.log, scene.topics.wire("dead-letters")) == bad


class ReplicaSite:
    """The Deployment and the EHPA of the examples, in mode apply, with both consumers."""

    def __init__(self) -> None:
        self.log, self.world = DeadlyLog(), ScaledWorld(KillSwitch())
        for topic in TOPICS:
            self.log.create(NAMES.wire(topic.name), 1)
        self.world.has("cart", 3)
        for ehpa in EVENTS:
            if isinstance(ehpa, EhpaChanged):
                self.world.ehpas.held[ehpa.namespace, ehpa.name] = ehpa_manifests.manifest_of(ehpa)
        self.put(POISON.good(ControlChanged(examples.AT, "prod", Mode.APPLY), "control"))
        context = LogContext.of(self.log, NAMES, "prod")
        options = AutoscalerOptions(resync=0.0, preview=0.0, writers=1)
        self.autoscalers = AutoscalerConsumer(
            context, EhpaReconciler(self.world.clients, EhpaObjectGenerator(LabelPropagation())), options
        )
        self.scaler = scaler(context, self.world)

    def put(self, *records: NewRecord) -> None:
        self.log.append(with_attestations(records, NAMES))

    def run(self, at: datetime) -> None:
        ticks.append(self.log, NAMES, round(at.timestamp() * 1000))
        self.autoscalers.poll_once()
        self.scaler.poll_once()


READ_BY_AUTOSCALERS = ("policies", "control", "load-forecasts", "replica-plans", "outcomes", "pod-changes-by-cluster")
REPLICA_RECORDS = st.lists(POISON.records(*READ_BY_AUTOSCALERS), max_size=8)


@given(before=REPLICA_RECORDS, later=REPLICA_RECORDS)
def test_no_record_ends_the_consumer_of_autoscalers_or_the_scaler(before: list[NewRecord], later: list[NewRecord]) -> None:
    keep(before, later)


def keep(before: list[NewRecord], later: list[NewRecord]) -> None:
    """Both consumers go through these records, some of which are there before they start."""
    site = ReplicaSite()
    plans = [changed(r, **{'"hpa"': '"direct"'}) for r in before]
    site.put(*plans)
    site.run(LATER)
    site.put(*later)
    for seconds in (1, 30, 4_000):
        site.run(LATER + timedelta(seconds=seconds))
    bad = sum(not readable(r) for r in [*plans, *later] if r.topic == NAMES.wire("replica-plans"))
    assert unreadable(site.log, NAMES.wire("dead-letters")) == bad


SELECTORS = (
    {"targetKind": "Deployment", "targetName": "cart", "targetNamespace": "shop", "resourceIdentifier": "resource.cpu"},
    {"resourceIdentifier": "resource.cpu"},
    {"targetName": "cart"},
    {},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the certificates of a scene."""
    return tmp_path_factory.mktemp("metrics")


@given(records=st.lists(POISON.records("policies", "load-forecasts"), max_size=8))
def test_no_record_ends_the_metrics_api_and_each_question_has_an_answer(folder: Path, records: list[NewRecord]) -> None:
    ask(folder, records)


def ask(folder: Path, records: list[NewRecord]) -> None:
    """Every question, now and later, of a view that has read these records."""
    scene = MetricsApiScene(folder)
    ours = [replace(changed(r, prod="demo"), topic=scene.topics.wire(NAMES.short(r.topic))) for r in records]
    for partition in range(scene.topics.partitions):
        scene.log.append([replace(r, partition=partition) for r in ours])
    scene.view.catch_up()
    for at in (LATER, LATER + timedelta(hours=2), datetime(2199, 12, 31, tzinfo=LATER.tzinfo)):
        for metric in scene.served.metrics:
            for selector in SELECTORS:
                assert isinstance(scene.served.answer(metric, "shop", selector, at.timestamp()), int | str)


@pytest.mark.slow
def test_no_text_of_an_event_ends_them(folder: Path) -> None:
    kinds = EhpaChanged, LoadForecast, ReplicasPlanned, TimeSeriesPredictionChanged
    good = [
        POISON.good(event, topic) for event in EVENTS for topic in CATALOGUE.of(type(event)).topics if isinstance(event, kinds)
    ]
    answered = [r for r in good if NAMES.short(r.topic) in ("policies", "load-forecasts")]
    count = 0
    for spoiled in islice(POISON.each_text(*READ_BY_AUTOSCALERS, kinds=kinds), 0, None, 11):
        keep([r for r in good if NAMES.short(r.topic) in READ_BY_AUTOSCALERS] + [spoiled], [spoiled])
        if NAMES.short(spoiled.topic) in ("policies", "load-forecasts"):
            ask(folder, [*answered, spoiled])
        count += 1
    assert count > 500
