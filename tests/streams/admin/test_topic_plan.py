"""Plans for topics, without a broker."""

import dataclasses

import pytest

from streams.admin.topic_admin import ExistingTopic, TopicChange, compare
from streams.topics import REACH_MS, TOPICS, Topics, TopicSpec, changelog_specs


def spec(**configs: str) -> TopicSpec:
    return TopicSpec("t", 4, {name.replace("_", "."): value for name, value in configs.items()})


def there(partitions: int = 4, replication: int = 1, **configs: str) -> dict[str, ExistingTopic]:
    return {"t": ExistingTopic(partitions, replication, {name.replace("_", "."): value for name, value in configs.items()})}


def as_existing(wanted: TopicSpec) -> ExistingTopic:
    return ExistingTopic(wanted.partitions, max(1, wanted.replication), dict(wanted.configs))


def test_a_missing_topic_is_to_be_created_and_that_is_safe() -> None:
    plan = compare([spec()], {})
    assert plan.changes == (TopicChange("t", "topic", None, "4 partitions"),)
    assert plan.refused() == ()


def test_all_our_topics_as_wanted_need_nothing() -> None:
    wanted = [*Topics("x", 3).specs(replication=3), *changelog_specs("x", ["recommender"], 3)]
    plan = compare(wanted, {s.name: as_existing(s) for s in wanted})
    assert (plan.changes, plan.notes) == ((), ())


def test_what_a_plan_says_once_done_leaves_nothing_to_say() -> None:
    wanted = Topics("x", 3).specs()
    old = {
        s.name: ExistingTopic(s.partitions, 1, {**s.configs, "retention.ms": "1000", "max.message.bytes": "1000"}) for s in wanted
    }
    plan = compare(wanted, old)
    assert plan.changes
    done = {
        name: dataclasses.replace(e, configs={**e.configs, **{c.what: c.after for c in plan.changes if c.topic == name}})
        for name, e in old.items()
    }
    assert compare(wanted, done).changes == ()


def test_settings_that_we_do_not_name_are_left_alone() -> None:
    assert compare([spec(a="1")], there(a="1", b="2")).changes == ()


def test_equal_values_spelt_otherwise_are_equal() -> None:
    wanted = spec(cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0.2")
    assert compare([wanted], there(cleanup_policy="delete, compact", min_cleanable_dirty_ratio="0.20")).changes == ()


@pytest.mark.parametrize(
    ("name", "before", "after", "destructive"),
    [
        ("retention_ms", "1000", "2000", False),
        ("retention_ms", "1000", "-1", False),
        ("retention_ms", "2000", "1000", True),
        ("retention_ms", "-1", "1000", True),
        ("min_compaction_lag_ms", "0", "5", False),
        ("min_compaction_lag_ms", "5", "0", True),
        ("max_message_bytes", "5", "6", False),
        ("max_message_bytes", "6", "5", True),
        ("cleanup_policy", "compact,delete", "compact", False),
        ("cleanup_policy", "compact", "compact,delete", True),
        ("cleanup_policy", "compact", "delete", True),
        ("cleanup_policy", "delete", "compact", True),
        ("cleanup_policy", "delete", "compact,delete", True),
        ("cleanup_policy", "compact,delete", "delete", True),
        ("segment_bytes", "6", "5", False),
        ("message_timestamp_type", "CreateTime", "LogAppendTime", False),
    ],
)
def test_a_changed_setting_is_listed_and_is_destructive_when_it_can_lose_something(
    name: str, before: str, after: str, destructive: bool
) -> None:
    (change,) = compare([spec(**{name: after})], there(**{name: before})).changes
    assert (change.what, change.before, change.after) == (name.replace("_", "."), before, after)
    assert change.destructive == destructive


def test_more_partitions_are_refused_unless_forced() -> None:
    plan = compare([spec()], there(partitions=2))
    (change,) = plan.changes
    assert (change.what, change.before, change.after) == ("partitions", "2", "4")
    assert plan.refused() == (change,)
    assert plan.refused(["t:partitions"]) == ()
    assert plan.refused(["t"]) == ()
    assert plan.refused(["u", "t:retention.ms"]) == (change,)


def test_fewer_partitions_are_refused_even_when_forced() -> None:
    plan = compare([spec()], there(partitions=8))
    assert plan.refused(["t", "t:partitions"]) == plan.changes
    assert "cannot take partitions away" in str(plan.changes[0])


def test_another_number_of_copies_is_a_note_and_no_change() -> None:
    plan = compare([dataclasses.replace(spec(), replication=3)], there(replication=1))
    assert plan.changes == ()
    assert plan.notes == ("t has 1 copies, not 3; moving them is a job for Kafka's own tools",)


def test_a_change_reads_as_a_line() -> None:
    (change,) = compare([spec(retention_ms="5")], there(retention_ms="-1")).changes
    assert str(change) == "t: retention.ms -1 -> 5 [records older than that would be deleted]"
    assert change.name == "t:retention.ms"


def test_every_compacted_topic_of_ours_waits_before_it_compacts_but_copies_of_the_present_do_not() -> None:
    specs = {s.name: s for s in Topics("x", 2).specs()}
    lags = {t.name: specs[f"x.{t.name}.v1"].configs["min.compaction.lag.ms"] for t in TOPICS if "compact" in t.cleanup}
    assert {name for name, lag in lags.items() if lag == "0"} == {"rules-latest", "policies-latest", "control-latest"}
    assert {lag for name, lag in lags.items() if not name.endswith("-latest")} == {str(REACH_MS)}


def test_with_three_copies_two_must_have_each_record_and_with_fewer_nothing_is_said() -> None:
    assert all(s.configs["min.insync.replicas"] == "2" for s in Topics("x", 2).specs(replication=3))
    assert all("min.insync.replicas" not in s.configs for s in Topics("x", 2).specs(replication=2))


def test_state_topics_are_named_as_faust_names_changelogs_and_are_compacted_soon() -> None:
    (recommender, updater) = changelog_specs("ullage", ["recommender", "updater"], 4, replication=3)
    assert recommender.name == "ullage-recommender-state-changelog"
    assert updater.name == "ullage-updater-state-changelog"
    assert (recommender.partitions, recommender.replication) == (4, 3)
    assert recommender.configs["cleanup.policy"] == "compact"
    assert int(recommender.configs["segment.bytes"]) < 64 << 20
