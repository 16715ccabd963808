import json
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agents.logic.nodes.scaler.group_troubles import TroubleCode
from agents.run.partition_task import TurnResult
from agents.telemetry import WorkerMetrics
from schemas.decisions.node_updates import NodeScalingHalted
from schemas.units import Bytes, Seconds
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.topics import Topics

TASK = {"stage": "recommender", "partition": "1"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> WorkerMetrics:
    metrics = WorkerMetrics(registry, Seconds(5.0))
    metrics.assigned([("recommender", 1)])
    metrics.opened("recommender", 1, found="checkpoint", seconds=Seconds(0.5), torn=2)
    return metrics


def _decision(kind: str, name: str = "") -> NewRecord:
    return NewRecord("t", 0, b"k", b"{}", (("ce_type", kind.encode()), ("ce_id", name.encode())))


def test_a_turn_counts_records_samples_decisions_by_kind_and_dead_letters(
    registry: CollectorRegistry, metrics: WorkerMetrics
) -> None:
    resize = _decision("ullage.resize-planned.v1", "updater/0/500/resize/uid-a")
    refused = _decision("ullage.update-refused.v1", "updater/0/500/refuse-successor/demo/web/Deployment/api")
    taken = TurnResult(turn=500, decisions=[resize, refused, resize], dead=[_decision("dead")], records=7, samples=40)
    metrics.turn_taken("recommender", 1, taken, seconds=Seconds(0.02))
    metrics.lag("recommender", 1, Seconds(1.5))
    metrics.turn_taken("recommender", 1, taken, seconds=Seconds(0.02))
    metrics.lag("recommender", 1, Seconds(0.5))
    value = registry.get_sample_value
    assert value("ullage_records_total", TASK) == 14
    assert value("ullage_samples_total", TASK) == 80
    assert value("ullage_decisions_total", {"stage": "recommender", "kind": "ullage.resize-planned.v1"}) == 4
    assert value("ullage_decisions_total", {"stage": "recommender", "kind": "ullage.update-refused.v1"}) == 2
    assert value("ullage_refusals_total", {"stage": "recommender", "guard": "successor"}) == 2
    assert value("ullage_dead_letters_total", {"stage": "recommender"}) == 2
    assert value("ullage_turn_seconds_count", {"stage": "recommender"}) == 2
    assert value("ullage_turn_seconds_sum", {"stage": "recommender"}) == pytest.approx(0.04)
    assert value("ullage_turn_lag_seconds", TASK) == 0.5


def test_a_group_that_is_out_is_counted_whatever_is_wrong_and_its_return_is_not(
    registry: CollectorRegistry, metrics: WorkerMetrics
) -> None:
    codec = Codec(Topics("ullage", 1))

    def said(number: int, code: TroubleCode) -> NewRecord:
        event = NodeScalingHalted(f"scaler/0/{number}/halted/g", datetime(2026, 1, 5, tzinfo=UTC), "demo", "g", code, "why", {})
        return codec.encode(event, topic="node-updates", key="demo", partition=0, source="/test")

    halts = [said(number, code) for number, code in enumerate(TroubleCode)]
    metrics.turn_taken(
        "recommender", 1, TurnResult(turn=500, decisions=halts, dead=[], records=0, samples=0), seconds=Seconds(0.02)
    )
    counted = registry.get_sample_value("ullage_node_scaling_halts_total", {"cluster": "demo", "group": "g"})
    assert counted == len(TroubleCode) - 1


def test_what_adaptive_promised_and_delivered_is_shown_while_it_decides_here(
    registry: CollectorRegistry, metrics: WorkerMetrics
) -> None:
    grounds = {"cpu_short_promised": 0.02, "cpu_short_delivered": 0.011}
    grounds |= {"memory_kills_promised": 0.9, "memory_kills": 1.0, "memory_kills_built_in": 2.0}
    day = 86_400_000

    def taken(turn: int, **by_adaptive: object) -> TurnResult:
        """Each decision goes to its workload and, in a copy, to its cluster."""
        decisions = []
        for name, about in by_adaptive.items():
            ident = f"recommender/1/{turn}/requests/{name}".encode()
            headers = (("ce_type", b"ullage.requests-recommended.v1"), ("ce_id", ident))
            value = json.dumps({"because": {"policy_grounds": {"app": about}}}).encode()
            decisions += [NewRecord("t", 0, key, value, headers) for key in (name.encode(), b"prod")]
        return TurnResult(turn, decisions, dead=[], records=0, samples=0)

    metrics.turn_taken("recommender", 1, taken(day, api=grounds, odd={"cpu_short_promised": "much"}), seconds=Seconds(0.02))

    def shown(name: str) -> list[float | None]:
        sides = ("promised", "delivered")
        return [registry.get_sample_value(name, {"workload": "api", "container": "app", "side": side}) for side in sides]

    assert shown("ullage_adaptive_cpu_short_ratio") == [0.02, 0.011]
    assert shown("ullage_adaptive_oom_kills") == [1.8, 1.0]
    assert b'workload="odd"' not in generate_latest(registry)
    assert b'workload="prod"' not in generate_latest(registry)
    metrics.turn_taken("recommender", 1, taken(3 * day, web=grounds), seconds=Seconds(0.02))
    assert b'workload="api"' not in generate_latest(registry)
    assert b'workload="web"' in generate_latest(registry)
    tenant = {f"demo/shop/Deployment/w{number}": grounds for number in range(600)}
    metrics.turn_taken("recommender", 1, taken(3 * day, **tenant, **{"demo/web/Deployment/w": grounds}), seconds=Seconds(0.02))
    lines = generate_latest(registry).decode().splitlines()
    assert sum(line.startswith("ullage_adaptive_oom_kills{") for line in lines) == 2 * (500 + 2), "a namespace fills no page"
    metrics.assigned([])
    assert b"workload=" not in generate_latest(registry)


def test_checkpoints_recoveries_and_troubles_are_counted(registry: CollectorRegistry, metrics: WorkerMetrics) -> None:
    metrics.checkpoint_written("recommender", 1, size=Bytes(1000), seconds=Seconds(0.2))
    metrics.checkpoint_written("recommender", 1, size=Bytes(500), seconds=Seconds(0.1))
    metrics.lost("recommender", 1, "pod-metrics", 12)
    metrics.gap_filled("recommender", 1, "policies")
    value = registry.get_sample_value
    assert value("ullage_checkpoint_bytes_total", TASK) == 1500
    assert value("ullage_checkpoint_seconds_count", {"stage": "recommender"}) == 2
    assert value("ullage_checkpoints_torn_total", TASK) == 2
    assert value("ullage_recoveries_total", {"stage": "recommender", "found": "checkpoint"}) == 1
    assert value("ullage_lost_records_total", {**TASK, "topic": "pod-metrics"}) == 12
    assert value("ullage_gaps_filled_total", {**TASK, "topic": "policies"}) == 1
    age = value("ullage_checkpoint_age_seconds", TASK)
    assert age is not None
    assert age >= 0


def test_a_partition_that_went_elsewhere_is_no_longer_shown(registry: CollectorRegistry, metrics: WorkerMetrics) -> None:
    metrics.lag("recommender", 1, Seconds(0.0))
    metrics.ticked("recommender", 1)
    assert registry.get_sample_value("ullage_partitions_open", {"stage": "recommender"}) == 1
    metrics.assigned([("recommender", 2)])
    assert registry.get_sample_value("ullage_partitions_open", {"stage": "recommender"}) == 0
    assert registry.get_sample_value("ullage_turn_lag_seconds", TASK) is None
    assert registry.get_sample_value("ullage_tick_age_seconds", TASK) is None
    assert b"ullage_partitions_open" in generate_latest(registry)


def test_a_worker_is_ready_when_each_partition_is_open_and_near(metrics: WorkerMetrics) -> None:
    metrics.assigned([("recommender", 1), ("updater", 0)])
    assert metrics.readiness.reasons() == [
        "recommender/1 is not open: its state is being recovered",
        "updater/0 is not open: its state is being recovered",
    ]
    metrics.lag("recommender", 1, Seconds(5.0))
    metrics.lag("updater", 0, Seconds(5.1))
    assert metrics.readiness.reasons() == ["updater/0 is 5.1 s of event time behind, more than 5.0 s"]
    metrics.lag("updater", 0, Seconds(0.2))
    assert metrics.readiness.reasons() == []
    metrics.closed("recommender", 1)
    assert metrics.readiness.reasons() == ["recommender/1 is not open: its state is being recovered"]


def test_a_worker_that_never_joined_is_not_ready_and_one_without_partitions_is(registry: CollectorRegistry) -> None:
    metrics = WorkerMetrics(registry)
    assert metrics.readiness.reasons() == ["the worker was not given any partition yet"]
    metrics.assigned([])
    assert metrics.readiness.reasons() == []


def test_what_is_said_of_a_partition_that_is_not_ours_changes_nothing(metrics: WorkerMetrics) -> None:
    metrics.lag("recommender", 1, Seconds(0.0))
    metrics.readiness.lag("updater", 3, Seconds(900.0))
    metrics.closed("updater", 3)
    assert metrics.readiness.reasons() == []
