from datetime import timedelta

from agents.run import stage_topics
from streams import decision_view
from streams.codec import plan_attestations
from streams.consumers.executing import executor, plan_evidence
from streams.consumers.webhook import offers
from streams.publishing import published_state
from streams.topics import CLOCK, REACH_MS, TOPICS, Topics

CLOCKS = Topics().topic(Topics().wire(CLOCK))


def test_the_clock_keeps_its_ticks_as_long_as_any_topic_that_they_speak_of() -> None:
    """Else records would stand in the log of which nobody knows in which turn they were.

    A topic that is only compacted keeps for ever what is newest of each key, and all of it for as long as turns are taken again.
    """
    assert CLOCKS.cleanup == "delete"
    assert max(topic.kept_ms for topic in TOPICS) == CLOCKS.kept_ms
    assert max(topic.need.retention_ms for topic in TOPICS) == CLOCKS.kept_ms
    assert CLOCKS.kept_ms > 0


def test_no_topic_keeps_less_or_more_than_who_reads_back_needs() -> None:
    """What a stage reads is kept for turns that are taken again; what consumers read at their start, for a day before that."""
    kept = {topic.name: topic.kept_ms for topic in TOPICS}
    inputs = stage_topics.input_topics()
    assert min(kept[name] for name in inputs) >= REACH_MS
    read_at_start = (plan_evidence.REACH + executor.START_SLACK) // timedelta(milliseconds=1)
    for name in ("outcomes", "pod-updates", "node-updates", "replica-plans", plan_attestations.TOPIC):
        assert kept[name] >= read_at_start, name
    hours = {
        "outcomes": offers.REACH,
        "pod-changes-by-cluster": offers.PODS_REACH,
        "pod-changes": published_state.REPUBLISH_AFTER,
    }
    hours |= {"quota-changes": 2 * published_state.REPUBLISH_AFTER, "vpa-conditions": decision_view.LATEST_REPEAT}
    for name, reach in {**hours, "load-forecasts": decision_view.LATEST_REPEAT}.items():
        assert timedelta(milliseconds=kept[name]) >= reach, name
    shown = {*stage_topics.all_decision_topics(), "outcomes"}
    for topic in TOPICS:
        if topic.name in inputs and topic.name not in shown and "compact" not in topic.cleanup:
            assert topic.kept_ms == read_at_start, f"{topic.name}: nobody reads further back"


def test_the_clock_has_one_partition_whatever_the_others_have() -> None:
    """Two could not say which tick comes after which."""
    assert {Topics(partitions=count).count(CLOCK) for count in (1, 4, 64)} == {1}


def test_with_three_copies_two_must_have_each_tick() -> None:
    topics = Topics()
    for copies, in_sync in ((1, None), (2, None), (3, "2")):
        (spec,) = (spec for spec in topics.specs(copies) if spec.name == topics.wire(CLOCK))
        assert (spec.partitions, spec.replication, spec.configs.get("min.insync.replicas")) == (1, copies, in_sync)
        assert spec.configs["message.timestamp.type"] == "LogAppendTime", "a tick is judged by when the log took it"
