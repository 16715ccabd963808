from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from agents.telemetry import ClockMetrics, ConsumerMetrics, NodeGroupMetrics, ObservedLog, SourceMetrics
from schemas.decision_subjects import Subject
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.facts.nodes import NodeGroupGone, NodeGroupSeen
from schemas.facts.sources import SourceReported
from schemas.names import Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.units import Seconds
from streams.clock_rules import PROBE, TICK
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.sources.clock import Clock, ClockTiming
from streams.topics import TOPICS, Topics

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = Workload(cluster="demo", namespace="shop", kind="Deployment", name="web")
T = Topics(partitions=2)


class AwayLog(MemoryLog):
    """A log that takes nothing."""

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        raise LogUnavailable(f"away, so {len(list(records))} records are not taken")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog(now=lambda: 5_250)
    for topic in TOPICS:
        log.create(T.wire(topic.name), 2)
    return log


def _outcome(action: Action, result: Result, detail: OutcomeDetail = OutcomeDetail.NONE) -> NewRecord:
    pod = Subject.of_pod(SHOP, PodName("shop", "web-1", "u1"))
    event = ActionFinished("i", AT, "d", action, result, "as asked", pod, detail)
    return Codec(T).encode(event, topic="outcomes", key="demo", partition=0, source="/ullage/consumer/x")


def test_outcomes_are_counted_by_action_and_result_once_the_log_has_them(registry: CollectorRegistry, log: MemoryLog) -> None:
    watched = ObservedLog(log, ConsumerMetrics(registry, T))
    watched.append([_outcome(Action.RESIZE, Result.DONE), _outcome(Action.RESIZE, Result.DONE)])
    watched.append([_outcome(Action.EVICT, Result.EXPIRED), NewRecord(T.wire("dead-letters"), 0, b"k", b"{}")])
    value = registry.get_sample_value
    assert value("ullage_outcomes_total", {"action": "resize", "result": "done"}) == 2
    assert value("ullage_outcomes_total", {"action": "evict", "result": "expired"}) == 1
    assert value("ullage_consumer_dead_letters_total") == 1
    assert log.end(T.wire("outcomes"), 0) == 3


def test_what_upstreams_updater_counts_is_counted_under_its_names(registry: CollectorRegistry, log: MemoryLog) -> None:
    watched = ObservedLog(log, ConsumerMetrics(registry, T))
    done, failed, refused = Result.DONE, Result.FAILED, Result.REFUSED
    watched.append(
        [
            _outcome(Action.EVICT, done, OutcomeDetail.APPLIED),
            _outcome(Action.EVICT, done, OutcomeDetail.ALREADY_DONE),
            _outcome(Action.EVICT, failed, OutcomeDetail.SEVERAL_BUDGETS),
            _outcome(Action.EVICT, refused, OutcomeDetail.NO_WEBHOOK),
            _outcome(Action.RESIZE, done, OutcomeDetail.APPLIED),
            _outcome(Action.RESIZE, failed, OutcomeDetail.INFEASIBLE),
            _outcome(Action.RESIZE, failed, OutcomeDetail.NODE_ERROR),
            _outcome(Action.RESIZE, Result.EXPIRED, OutcomeDetail.DEFERRED),
        ]
    )
    value = registry.get_sample_value
    assert value("vpa_updater_evicted_pods_total") == 1
    assert value("vpa_updater_failed_eviction_attempts_total", {"reason": "EvictionError"}) == 1
    assert value("vpa_updater_in_place_updated_pods_total") == 1
    attempts = "vpa_updater_failed_in_place_update_attempts_total"
    assert value(attempts, {"reason": "InPlaceUpdateInfeasible"}) == 1
    assert value(attempts, {"reason": "InPlaceUpdateError"}) == 1
    assert value("vpa_updater_admission_controller_status_invalid_total", {"reason": "invalid"}) == 1


def test_what_the_log_does_not_take_is_a_failure_and_not_an_outcome(registry: CollectorRegistry) -> None:
    watched = ObservedLog(AwayLog(), ConsumerMetrics(registry, T))
    with pytest.raises(LogUnavailable, match="away, so 1 records are not taken"):
        watched.append([_outcome(Action.RESIZE, Result.DONE)])
    assert registry.get_sample_value("ullage_consumer_failures_total") == 1
    assert registry.get_sample_value("ullage_outcomes_total", {"action": "resize", "result": "done"}) is None


def test_what_a_source_dropped_is_counted_once_however_often_it_is_told(registry: CollectorRegistry) -> None:
    metrics = SourceMetrics(registry, T, "cluster")
    for so_far in (2, 2, 5):
        metrics.dropped({T.wire("pod-metrics"): so_far})
    assert registry.get_sample_value("ullage_source_dropped_total", {"source": "cluster", "topic": "pod-metrics"}) == 5


def test_a_source_counts_what_it_appended_by_topic(registry: CollectorRegistry, log: MemoryLog) -> None:
    watched = ObservedLog(log, SourceMetrics(registry, T, "cluster"))
    changes, metrics = (NewRecord(T.wire(name), 1, b"k", b"{}") for name in ("pod-changes", "pod-metrics"))
    watched.append([changes, metrics, metrics])
    watched.append(iter([metrics]))
    value = registry.get_sample_value
    assert value("ullage_source_records_total", {"source": "cluster", "topic": "pod-metrics"}) == 3
    assert value("ullage_source_records_total", {"source": "cluster", "topic": "pod-changes"}) == 1
    age = value("ullage_source_age_seconds", {"source": "cluster"})
    assert age is not None
    assert age >= 0


def test_a_report_that_nothing_is_seen_does_not_make_a_source_young(registry: CollectorRegistry, log: MemoryLog) -> None:
    watched, codec = ObservedLog(log, SourceMetrics(registry, T, "usage")), Codec(T)

    def report(*sees: str) -> list[NewRecord]:
        event = SourceReported(AT, "demo", "usage", sees, Seconds(60.0))
        return codec.encode_for_all(event, topic="cluster-changes", key="demo", source="/ullage/source/usage")

    watched.append(report())
    assert registry.get_sample_value("ullage_source_age_seconds", {"source": "usage"}) is None
    watched.append(report("pod-metrics"))
    assert registry.get_sample_value("ullage_source_age_seconds", {"source": "usage"}) is not None


def test_what_the_log_did_not_take_is_forgiven_when_a_retry_takes_it_with_more(
    registry: CollectorRegistry, log: MemoryLog
) -> None:
    watched = ObservedLog(log, SourceMetrics(registry, T, "usage"))
    pods, metrics = (NewRecord(T.wire(name), 1, b"k", b"{}") for name in ("pod-changes", "pod-metrics"))
    take, log.append = log.append, AwayLog().append  # type: ignore[method-assign]  # away for one append
    with pytest.raises(LogUnavailable):
        watched.append([pods])
    with pytest.raises(LogUnavailable, match="the log does not do its part: away, so 1 records"):
        watched.require()
    log.append = take  # type: ignore[method-assign]  # as above
    watched.append([pods, metrics])
    watched.require()


def test_a_source_counts_appends_that_the_log_did_not_take(registry: CollectorRegistry) -> None:
    watched = ObservedLog(AwayLog(), SourceMetrics(registry, T, "cluster"))
    with pytest.raises(LogUnavailable):
        watched.append([])
    assert registry.get_sample_value("ullage_source_failures_total", {"source": "cluster"}) == 1


def test_a_clock_counts_ticks_and_no_probes(registry: CollectorRegistry, log: MemoryLog) -> None:
    now = iter(range(5_000, 7_000, 100))
    clock = Clock(
        ObservedLog(log, ClockMetrics(registry, T)),
        T,
        ClockTiming(period_ms=100),
        now=lambda: next(now),
    )
    written = [clock.step(), clock.step(), clock.step()]
    assert len([number for number in written if number is not None]) == 3
    keys = [record.key for record in log.poll({(T.wire("clock"), 0): 0})]
    assert keys.count(TICK) == 3
    assert keys.count(PROBE) >= 1
    assert registry.get_sample_value("ullage_clock_ticks_total") == 3


def test_a_clocks_skew_is_its_probes_number_less_the_logs_time(registry: CollectorRegistry, log: MemoryLog) -> None:
    watched = ObservedLog(log, ClockMetrics(registry, T))
    clock = T.wire("clock")
    watched.append([NewRecord(clock, 0, PROBE, b"5000"), NewRecord(clock, 0, PROBE, b"x"), NewRecord(clock, 0, TICK, b"9000")])
    assert len(watched.poll({(clock, 0): 0})) == 3
    assert registry.get_sample_value("ullage_clock_skew_seconds") == (5_000 - 5_250) / 1000


def test_a_clocks_age_grows_from_its_start(registry: CollectorRegistry) -> None:
    metrics = ClockMetrics(registry, T)
    before = registry.get_sample_value("ullage_clock_tick_age_seconds")
    metrics.failed(LogUnavailable("away"))
    assert before is not None
    assert before > 0.0
    assert registry.get_sample_value("ullage_clock_failures_total") == 1


def test_what_the_cluster_autoscaler_counts_is_counted_by_what_was_planned(registry: CollectorRegistry, log: MemoryLog) -> None:
    unneeded, pods = RemovalReason.UNNEEDED, (PodName("shop", "web-1", "u1"), PodName("shop", "web-2", "u2"))
    grow = ScaleUpPlanned("g", AT, AT, "demo", "web", 1, 4, 3, (), "price", {})
    node = ("demo", "n1", "u", "aws:///x", "i-1", "web", unneeded, pods, ())
    watched, codec = ObservedLog(log, ConsumerMetrics(registry, T)), Codec(T)
    for plan in (grow, NodeRemovalPlanned("d", AT, AT, *node, grace=Seconds(1), drain=Seconds(1), because={})):
        watched.append([codec.encode(plan, topic="node-updates", key="demo", partition=0, source="/ullage/scaler")])
    watched.poll({(T.wire("node-updates"), 0): 0})
    for plan_id, action, result in (
        ("g", Action.SCALE_UP, Result.DONE),
        ("g", Action.SCALE_UP, Result.FAILED),
        ("d", Action.REMOVE_NODE, Result.DONE),
    ):
        event = ActionFinished("i", AT, plan_id, action, result, "as asked", Subject.of_node_group("demo", "web"))
        watched.append([codec.encode(event, topic="outcomes", key="demo", partition=0, source="/ullage/consumer/asg")])
    value = registry.get_sample_value
    assert value("cluster_autoscaler_scaled_up_nodes_total") == 3
    assert value("cluster_autoscaler_failed_scale_ups_total", {"reason": "apiCallError"}) == 1
    assert value("cluster_autoscaler_scaled_down_nodes_total", {"reason": "underutilized"}) == 1
    assert value("cluster_autoscaler_evicted_pods_total", {"eviction_result": "succeeded"}) == 2


def test_sizes_of_groups_are_those_in_the_log_also_after_a_restart(registry: CollectorRegistry, log: MemoryLog) -> None:
    topic, changes = "node-group-changes", ObservedLog(log, NodeGroupMetrics(CollectorRegistry(), T, "asg"))
    seen = [NodeGroupSeen(AT, "demo", name, 1, 9, desired) for name, desired in (("web", 2), ("batch", 3))]
    for fact in (*seen, NodeGroupGone(AT, "demo", "batch")):
        changes.append([Codec(T).encode(fact, topic=topic, key="demo", partition=0, source="/ullage/source/asg")])
    restarted = ObservedLog(log, NodeGroupMetrics(registry, T, "asg"))
    restarted.poll({(T.wire(topic), 0): 0})
    value, web = registry.get_sample_value, {"node_group": "web"}
    assert [value(f"cluster_autoscaler_node_group_{of}_count", web) for of in ("min", "max", "target")] == [1, 9, 2]
    assert value("cluster_autoscaler_node_group_target_count", {"node_group": "batch"}) is None
    assert value("cluster_autoscaler_node_groups_count", {"node_group_type": "autoscaled"}) == 1
