from streams.topics import CLOCK, REACH_MS, TOPICS, Topics

CLOCKS = Topics().topic(Topics().wire(CLOCK))


def test_the_clock_keeps_its_ticks_as_long_as_any_topic_that_they_speak_of() -> None:
    """Else records would stand in the log of which nobody knows in which turn they were.

    A topic that is only compacted keeps for ever what is newest of each key, and all of it for as long as turns are taken again.
    """
    kept = {topic.name: REACH_MS if topic.cleanup == "compact" else topic.retention_ms for topic in TOPICS}
    assert CLOCKS.cleanup == "delete"
    assert min(kept.values()) > 0
    assert max(kept.values()) <= CLOCKS.retention_ms


def test_the_clock_has_one_partition_whatever_the_others_have() -> None:
    """Two could not say which tick comes after which."""
    assert {Topics(partitions=count).count(CLOCK) for count in (1, 4, 64)} == {1}


def test_with_three_copies_two_must_have_each_tick() -> None:
    topics = Topics()
    for copies, in_sync in ((1, None), (2, None), (3, "2")):
        (spec,) = (spec for spec in topics.specs(copies) if spec.name == topics.wire(CLOCK))
        assert (spec.partitions, spec.replication, spec.configs.get("min.insync.replicas")) == (1, copies, in_sync)
        assert spec.configs["message.timestamp.type"] == "LogAppendTime", "a tick is judged by when the log took it"
