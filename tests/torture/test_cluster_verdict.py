"""What the verdict on a cluster makes of the log's own times."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.decisions.pod_updates import EvictionPlanned
from schemas.names import PodName, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from streams.codec.event_codec import Codec
from streams.log.log_port import Record
from streams.topics import Topics
from tests.torture.cluster_verdict import verdict
from tests.torture.judge import Act, ConsumerHistory

START = datetime(2026, 1, 1, tzinfo=UTC)
WEB, POD = Workload("west", "shop", "Deployment", "web"), PodName("shop", "web-1", "u1")
CODEC = Codec(Topics("t", 1))


def stored(event: Any, topic: str, key: str, at_ms: int) -> Record:
    new = CODEC.encode(event, topic=topic, key=key, partition=0, source="/ullage/test")
    return Record(new.topic, 0, 0, new.key, new.value, new.headers, at_ms)


@pytest.mark.parametrize(("after_us", "wrong"), [(-900, 0), (200, 0), (900, 0), (1_100, 2)])
def test_an_act_and_its_outcome_may_be_of_the_same_millisecond(after_us: int, wrong: int) -> None:
    """`after_us`: the act, in microseconds after the time that the log gave its outcome."""
    plan = EvictionPlanned("updater/0/1/evict/u1", START, START + timedelta(seconds=200), WEB, POD, {}, {})
    done = ActionFinished(
        "outcome/e1", START, plan.id, Action.EVICT, Result.DONE, "accepted", plan.subject, OutcomeDetail.APPLIED
    )
    records = [stored(plan, "pod-updates", WEB.key, 100_000), stored(done, "outcomes", WEB.cluster, 101_000)]
    act = Act(Action.EVICT, POD.uid, (), 101.0 + after_us / 1e6, START)
    cluster: Any = SimpleNamespace(name="west", acts=[act], deleted={}, created=[], excess=())
    figures, says = verdict(cluster, records, CODEC, ConsumerHistory())
    assert figures["acts"] == 1
    assert len(says) == wrong, says
