"""What consumers remember of finished decisions, and for how long."""

from datetime import UTC, datetime, timedelta

from schemas.decision_subjects import Subject
from schemas.names import PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from streams.consumers.executing.plan_evidence import OutcomeIndex

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def outcome(decision: str, at: datetime) -> ActionFinished:
    pod, workload = PodName("shop", "web-1", "u"), Workload("demo", "shop", "Deployment", "web")
    return ActionFinished("i", at, decision, Action.EVICT, Result.DONE, "", Subject.of_pod(workload, pod))


def test_memory_holds_fourteen_days_however_long_it_runs() -> None:
    index = OutcomeIndex(NOW)
    for day in range(400):
        index.apply(outcome(f"d{day}", NOW + day * DAY))
        index.expire(NOW + day * DAY)
        assert len(index) <= 15
    assert (index.since, "d385" in index, "d384" in index) == (NOW + 385 * DAY, True, False)


def test_time_that_goes_back_brings_nothing_back() -> None:
    index = OutcomeIndex(NOW)
    index.expire(NOW + DAY)
    index.expire(NOW)
    assert index.since == NOW - 13 * DAY
