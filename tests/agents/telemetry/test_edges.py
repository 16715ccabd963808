from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from agents.telemetry import ClockMetrics, ConsumerMetrics, SourceMetrics
from schemas.names import PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Seconds
from streams.errors import GiveUp, TryAgain

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = Workload(cluster="demo", namespace="shop", kind="Deployment", name="web")


def _outcome(action: Action, result: Result) -> ActionFinished:
    return ActionFinished("i", AT, "d", action, result, "as asked", SHOP, PodName("shop", "web-1", "u1"))


def test_outcomes_are_counted_by_action_and_result() -> None:
    registry = CollectorRegistry()
    metrics = ConsumerMetrics(registry)
    metrics.finished("resizer", _outcome(Action.RESIZE, Result.DONE))
    metrics.finished("resizer", _outcome(Action.RESIZE, Result.DONE))
    metrics.finished("evictor", _outcome(Action.EVICT, Result.EXPIRED))
    metrics.tries_again("evictor", Action.EVICT)
    metrics.behind("evictor", 1, 17)
    value = registry.get_sample_value
    assert value("ullage_outcomes_total", {"consumer": "resizer", "action": "resize", "result": "done"}) == 2
    assert value("ullage_outcomes_total", {"consumer": "evictor", "action": "evict", "result": "expired"}) == 1
    assert value("ullage_consumer_retries_total", {"consumer": "evictor", "action": "evict"}) == 1
    assert value("ullage_consumer_lag_records", {"consumer": "evictor", "partition": "1"}) == 17


def test_a_source_counts_what_it_appended_dropped_and_could_not_see() -> None:
    registry = CollectorRegistry()
    metrics = SourceMetrics(registry)
    metrics.appended("cluster", "pod-metrics", 4)
    metrics.dropped("cluster", 9)
    metrics.failed("cluster", TryAgain(doing="listing pods of", to="demo", answer="503", after=Seconds(1.0)))
    metrics.failed("cluster", GiveUp(doing="listing pods of", to="demo", answer="403"))
    value = registry.get_sample_value
    assert value("ullage_source_records_total", {"source": "cluster", "topic": "pod-metrics"}) == 4
    assert value("ullage_source_dropped_total", {"source": "cluster"}) == 9
    assert value("ullage_source_failures_total", {"source": "cluster", "kind": "TryAgain"}) == 1
    assert value("ullage_source_failures_total", {"source": "cluster", "kind": "GiveUp"}) == 1


def test_a_clock_counts_ticks_and_its_age_grows_from_the_start() -> None:
    registry = CollectorRegistry()
    metrics = ClockMetrics(registry)
    metrics.skewed(Seconds(-0.25))
    metrics.failed()
    before = registry.get_sample_value("ullage_clock_tick_age_seconds")
    metrics.ticked()
    after = registry.get_sample_value("ullage_clock_tick_age_seconds")
    assert registry.get_sample_value("ullage_clock_ticks_total") == 1
    assert registry.get_sample_value("ullage_clock_skew_seconds") == -0.25
    assert registry.get_sample_value("ullage_clock_failures_total") == 1
    assert before is not None
    assert before > 0.0
    assert after is not None
    assert after > 0.0
