"""How the rules of stages come into the log, and that nobody joins who would decide otherwise."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from agents.engine.stage import Stage
from agents.logic.resources.limit_ranges import NONE
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.run import rules_in_log
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas.catalogue import Event
from schemas.names import Amounts, Place
from schemas.policies.control import StageRulesChanged
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from schemas.units import Cores, Fraction
from streams import compacted_copy
from streams.errors import BadInput
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support.cluster_events import START, turn, when

AT = when(START)
MORE = Settings(vertical=replace(VerticalSettings(), margin=Fraction(0.5), integer_cpu=True))
NAMES = [stage.name for stage in stages(Settings())]


def new_log(partitions: int, log: MemoryLog | None = None) -> LogContext:
    log, topics = log or MemoryLog(), Topics(partitions=partitions)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), partitions)
    return LogContext.of(log, topics)


def newest(context: LogContext, partition: int) -> dict[str, str]:
    """The version of each stage's rules that a task of this partition would decide by."""
    found = {}
    for record in context.log.poll({(context.topics.wire("rules"), partition): 0}):
        event = context.codec.decode(record)
        assert isinstance(event, StageRulesChanged)
        found[event.stage] = event.version
    return found


def program(version: int) -> list[Stage]:
    return [replace(stage, program=version) for stage in stages(Settings())]


def test_the_first_worker_puts_its_rules_into_every_partition_and_the_next_agrees_without_a_record() -> None:
    context = new_log(3)
    assert [rules.stage for rules in rules_in_log.agree(context, stages(Settings()), AT)] == NAMES
    wire = context.topics.wire("rules")
    assert [context.log.end(wire, p) for p in range(3)] == [len(NAMES)] * 3
    assert rules_in_log.agree(context, stages(Settings()), when(START + 1)) == []
    assert [context.log.end(wire, p) for p in range(3)] == [len(NAMES)] * 3


def test_a_worker_with_another_margin_is_refused_and_told_each_setting_that_differs() -> None:
    context = new_log(2)
    rules_in_log.agree(context, stages(Settings()), AT)
    with pytest.raises(BadInput) as caught:
        rules_in_log.agree(context, stages(MORE), AT)
    assert (
        "recommender: margin is 0.15 in the log and 0.5 here; integer_cpu is false in the log and true here. "
        "Start it with the settings of the log, or make these the rules of all workers with `ullage settings apply`"
    ) in str(caught.value)
    assert rules_in_log.in_log(context)["recommender"].settings["margin"] == 0.15


def test_after_a_change_of_settings_the_other_worker_agrees_and_the_former_is_refused() -> None:
    context = new_log(2)
    rules_in_log.agree(context, stages(Settings()), AT)
    (changed,) = rules_in_log.publish(context, stages(MORE), AT)
    assert rules_in_log.agree(context, stages(MORE), AT) == []
    assert newest(context, 0)["recommender"] == newest(context, 1)["recommender"] == changed.version
    with pytest.raises(BadInput, match=r"margin is 0\.5 in the log and 0\.15 here"):
        rules_in_log.agree(context, stages(Settings()), AT)


def test_a_worker_of_another_version_of_the_rules_is_refused() -> None:
    context = new_log(1)
    rules_in_log.agree(context, program(1), AT)
    with pytest.raises(BadInput, match="updater: the program's rules are version 1 in the log and 2 here"):
        rules_in_log.agree(context, program(2), AT)


def test_a_setting_that_the_log_does_not_name_has_its_default_there() -> None:
    context = new_log(1)
    younger = stages(Settings())[0]
    older = replace(younger, rules={name: value for name, value in younger.rules.items() if name != "node_cap"})
    rules_in_log.agree(context, [older], AT)
    assert rules_in_log.agree(context, [younger], AT) == []
    with pytest.raises(BadInput, match="node_cap is true in the log and false here"):
        rules_in_log.agree(context, [replace(younger, rules={**younger.rules, "node_cap": False})], AT)


@pytest.mark.parametrize("copied", [True, False])
def test_rules_are_found_however_far_back_they_stand_with_and_without_a_copy(copied: bool) -> None:
    context = new_log(1)
    if copied:
        compacted_copy.complete(context.log, context.topics, "rules")
    rules_in_log.agree(context, stages(Settings()), AT)
    wire = context.topics.wire("rules")
    context.log.append(NewRecord(wire, 0, b"tick", b"1") for _ in range(compacted_copy.TAIL + 1))
    with pytest.raises(BadInput, match="margin is"):
        rules_in_log.agree(context, stages(MORE), AT)


CAP = LimitRangeChanged(AT, "demo", "web", "range", (Limit(LimitType.CONTAINER, most=Amounts(Cores(0.16))),))


def policies(context: LogContext, partition: int, start: int) -> list[Event]:
    """What a task of this partition reads of policies after `start`."""
    records = context.log.poll({(context.topics.wire("policies"), partition): start})
    return [context.codec.decode(record) for record in records]


def publish(context: LogContext, event: LimitRangeChanged | LimitRangeRemoved) -> None:
    records = context.codec.encode_for_all(event, topic="policies", key=event.key, source="/kube")
    compacted_copy.append_with_copies(context.log, context.topics, records)


@pytest.mark.parametrize("copied", [True, False])
def test_an_upgrade_puts_the_policies_in_force_behind_its_rules_for_states_that_lack_them(copied: bool) -> None:
    context = new_log(2)
    if copied:
        for name in compacted_copy.COPIES:
            compacted_copy.complete(context.log, context.topics, name)
    rules_in_log.agree(context, program(4), AT)
    publish(context, CAP)
    publish(context, replace(CAP, name="gone"))
    publish(context, LimitRangeRemoved(AT, "demo", "web", "gone"))
    ends = [context.log.end(context.topics.wire("policies"), partition) for partition in range(2)]
    rules_in_log.publish(context, program(5), when(START + 1))
    older = Updater(UpdateSettings(), 1)  # as from a checkpoint of version 4, which passed LimitRanges over
    for partition, end in enumerate(ends):
        assert policies(context, partition, end) == [replace(CAP, at=when(START + 1))]
    older.step(turn(START + 2, policies=policies(context, 1, ends[1])))
    assert older.clusters.constraints.ranges_of("demo/web/Deployment/api") != NONE


def test_other_settings_of_the_same_program_state_no_policy_again() -> None:
    context = new_log(1)
    rules_in_log.agree(context, stages(Settings()), AT)
    publish(context, CAP)
    end = context.log.end(context.topics.wire("policies"), 0)
    rules_in_log.publish(context, stages(MORE), AT)
    assert policies(context, 0, end) == []


class RacingLog(MemoryLog):
    """A source publishes the next of `others` at each moment in which the LimitRange is about to be stated again."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[list[NewRecord]] = []

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        batch = list(records)
        if self.others and any(record.key == CAP.key.encode() for record in batch):
            super().append(self.others.pop(0))
        return super().append(batch)


GONE = LimitRangeRemoved(AT, "demo", "web", "range")


@pytest.mark.parametrize("news", [[replace(CAP, limits=())], [GONE], [replace(CAP, limits=()), GONE], [GONE, CAP]])
def test_what_a_source_publishes_while_policies_are_stated_again_is_the_last_word(
    news: list[LimitRangeChanged | LimitRangeRemoved],
) -> None:
    log = RacingLog()
    context = new_log(2, log)
    rules_in_log.agree(context, program(4), AT)
    publish(context, CAP)
    log.others = [context.codec.encode_for_all(each, topic="policies", key=each.key, source="/kube") for each in news]
    rules_in_log.publish(context, program(5), AT)
    assert not log.others
    assert [policies(context, partition, 0)[-1] for partition in range(2)] == [news[-1], news[-1]]


class ContestedLog(MemoryLog):
    """Another worker appends its rules while we append ours: in `after` these partitions after ours, in the others before."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after
        self.others: list[NewRecord] = []

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        batch, others = list(records), self.others
        self.others = []
        super().append(r for r in others if r.partition != self.after)
        places = super().append(batch)
        super().append(r for r in others if r.partition == self.after)
        return places


def contested(after: int) -> LogContext:
    log = ContestedLog(after)
    context = new_log(2, log)
    theirs = rules_in_log.rules_of(stages(MORE)[0], AT)
    assert theirs is not None
    log.others = context.codec.encode_for_all(theirs, topic="rules", key=theirs.key, source="/other")
    return context


def test_of_two_first_workers_the_one_that_is_not_last_in_partition_0_is_refused() -> None:
    with pytest.raises(BadInput, match=r"margin is 0\.5 in the log and 0\.15 here"):
        rules_in_log.agree(contested(after=0), stages(Settings()), AT)


def test_of_two_first_workers_the_last_in_partition_0_lets_all_partitions_follow_it() -> None:
    context = contested(after=1)
    ours, *_ = rules_in_log.agree(context, stages(Settings()), AT)
    assert newest(context, 0)["recommender"] == newest(context, 1)["recommender"] == ours.version
