"""What an operator commands: the control record of a cluster, the rules that its stages decide by, and reverts.

The control record says how far the program may go, whether it is paused, and its budget, also by schedule. The sentences that
explain why nothing may be done now, and what its schedules make of a record at a moment, are here, because stages and consumers
obey the same record.

Every record says who wrote it, and how we know. The name is what the writer's own client says. Kafka checks a principal when it
lets somebody write, so whoever has a right on the topic can write any name here; docs/security.md says who has that right.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

from schemas import bounds, cron_schedules, times
from schemas.names import Amounts, Workload
from schemas.units import Fraction


class KnownBy(StrEnum):
    """Where an author's name comes from."""

    KAFKA = "kafka"
    """The principal with which the client logs in to Kafka."""
    SYSTEM = "system"
    """The user and host of the operating system, where Kafka asks for no login."""
    CLUSTER = "cluster"
    """The field manager that last changed the spec of an object of the cluster, and when; its client chose the name."""


_SAYS = {KnownBy.KAFKA: "Kafka principal", KnownBy.SYSTEM: "user of the host", KnownBy.CLUSTER: "field manager"}


@dataclass(frozen=True, slots=True)
class Author:
    """A name, such as a Kafka principal or user@host, and where it comes from."""

    name: str
    known_by: KnownBy

    def __str__(self) -> str:
        return f"{self.name} ({_SAYS[self.known_by]})"


class Mode(StrEnum):
    """How far the program may go. SHADOW only records decisions, PLAN also shows what would be done, APPLY acts."""

    SHADOW = "shadow"
    PLAN = "plan"
    APPLY = "apply"


MOST_SCHEDULES = 20
MOST_MINUTES = 31 * 24 * 60
"""The longest time that a schedule may apply."""


@dataclass(frozen=True, slots=True)
class ControlSchedule:
    """What holds for some minutes from each moment of a cron schedule on. None, and an empty reason, say nothing."""

    begins: str
    """Five fields, in UTC unless `zone` says otherwise. `@every` has no moments of its own, and is refused."""
    minutes: int
    zone: str = ""
    """The IANA name of a time zone."""
    mode: Mode | None = None
    budget: Fraction | None = None
    paused: bool = False
    """It can pause, and never ends a pause."""
    reason: str = ""

    def __str__(self) -> str:
        """`0 9 * * mon-fri Europe/Berlin for 480 min: mode shadow, paused (office hours)`."""
        says = [] if self.mode is None else [f"mode {self.mode.value}"]
        says += [] if self.budget is None else [f"budget {self.budget:g}"]
        says += ["paused"] if self.paused else []
        zone, why = f" {self.zone}" if self.zone else "", f" ({self.reason})" if self.reason else ""
        return f"{self.begins}{zone} for {self.minutes} min: {', '.join(says)}{why}"

    def applies(self, now: datetime) -> bool:
        """Whether `now` is within it. A moment that a change of the clock skips is when the skipped time ends."""
        seconds = int(times.to_ms(now) // 1000)
        begun = _begun(self.begins, self.zone, seconds)
        return begun is not None and seconds < begun + self.minutes * 60


@lru_cache(maxsize=256)
def _begun(begins: str, zone: str, seconds: int) -> int | None:
    # Kept for the second: every consumer asks for each record that it looks at.
    return cron_schedules.parse(begins).last(seconds, cron_schedules.load(zone))


@dataclass(frozen=True, slots=True)
class ControlChanged:
    """Somebody set a cluster's mode, pause and budget. Consumers obey it even when agents lag."""

    at: datetime
    cluster: str
    mode: Mode
    paused: bool = False
    reason: str = ""
    budget: Fraction = Fraction(0.1)
    """Share of a cluster's and of a workload's pods that may be away or being changed at one time."""
    by: Author | None = None
    """Who set it; None for what no person wrote."""
    through: str = ""
    """The object of the cluster that says so, as `ClusterControl/ullage`; while it exists, it alone changes control."""
    schedules: tuple[ControlSchedule, ...] = ()

    def in_force_at(self, now: datetime) -> "ControlChanged":
        """What its schedules make of it at a moment; they must have no `fault`.

        Of those that apply together the most careful counts: the mode that goes least far, the smallest budget, and any pause.
        """
        applying = [schedule for schedule in self.schedules if schedule.applies(now)]
        if not applying:
            return self
        modes = [schedule.mode for schedule in applying if schedule.mode is not None]
        budgets = [schedule.budget for schedule in applying if schedule.budget is not None]
        return replace(
            self,
            # The modes are listed from the most careful on.
            mode=min(modes, key=list(Mode).index, default=self.mode),
            budget=min(budgets, default=self.budget),
            paused=self.paused or any(schedule.paused for schedule in applying),
            reason="; ".join(dict.fromkeys(why for why in (self.reason, *(schedule.reason for schedule in applying)) if why)),
        )

    @property
    def may_apply(self) -> bool:
        """Whether its mode is apply, now or by a schedule."""
        return Mode.APPLY in (self.mode, *(schedule.mode for schedule in self.schedules))

    @property
    def pause(self) -> str | None:
        """Why nothing may be planned or done, as a sentence; None while the cluster is not paused."""
        if not self.paused:
            return None
        return f"cluster '{self.cluster}' is paused" + (f": {self.reason}" if self.reason else "")


def faults(control: ControlChanged) -> Iterator[str]:
    """What is wrong with a record, beyond the bounds of its types; nobody obeys one with a fault."""
    yield from bounds.number("budget", control.budget, 1.0)
    if len(control.schedules) > MOST_SCHEDULES:
        yield f"schedules has {len(control.schedules)} entries; {MOST_SCHEDULES} are allowed"
    for i, schedule in enumerate(control.schedules[:MOST_SCHEDULES]):
        where = f"schedules[{i}]"
        if schedule.budget is not None:
            yield from bounds.number(f"{where}.budget", schedule.budget, 1.0)
        if not 0 < schedule.minutes <= MOST_MINUTES:
            yield f"{where}.minutes is {schedule.minutes}; it is from 1 to {MOST_MINUTES}"
        if schedule.mode is None and schedule.budget is None and not schedule.paused:
            yield f"{where} says neither mode nor budget nor paused"
        try:
            cron_schedules.load(schedule.zone)
            every = cron_schedules.parse(schedule.begins).every
        except ValueError as error:
            yield f"{where}: {error}"
        else:
            if every:
                yield f"{where}.begins is '{schedule.begins}'; @every has no moment at which it begins"


def refusals(control: ControlChanged) -> Iterator[str]:
    """Why nobody should write such a record: its faults, and schedules without a moment, which do nothing."""
    yield from faults(control)
    for i, schedule in enumerate(control.schedules[:MOST_SCHEDULES]):
        # Only who writes a record is told: one that stands in the log already and never begins does no harm.
        with suppress(ValueError):  # a fault, which is said already
            if cron_schedules.parse(schedule.begins).never:
                yield f"schedules[{i}].begins is '{schedule.begins}'; there is no such day, so it never begins"


def objection(control: ControlChanged | None, cluster: str) -> str | None:
    """Why nothing may be done to a cluster under its control record, as a sentence; None when acting is allowed.

    A cluster without a record is in mode shadow.
    """
    if control is None:
        return f"nobody has set the mode of cluster '{cluster}' yet, so it is shadow"
    if control.paused:
        return control.pause
    if control.mode is not Mode.APPLY:
        return f"the mode of cluster '{cluster}' is {control.mode.value}, not apply"
    return None


RuleValue = bool | int | float | str | None
"""What one setting of a stage can be."""


@dataclass(frozen=True, slots=True)
class StageRulesChanged:
    """From the turn that takes this in, a stage decides by these settings and this version of the program's rules.

    `version` follows from the other three (`rules_version`); decisions cite it with the place of the record.
    """

    at: datetime
    stage: str
    # Counts the changes of the stage's code that change decisions.
    program: int
    settings: Mapping[str, RuleValue]  # All settings of the stage, by name.
    # By content, so that equal rules are recognised, whoever wrote them.
    version: str
    by: Author | None = None
    """Who applied them; for a log without rules, whose settings the first worker had."""

    @property
    def key(self) -> str:
        """`stage/name`, the record key."""
        return f"stage/{self.stage}"  # no workload, VPA or policy target has such a key: those name a cluster first


def rules_version(stage: str, program: int, settings: Mapping[str, RuleValue]) -> str:
    """16 hexadecimal digits that depend on the content alone, not on the order of `settings`."""
    content = json.dumps([stage, program, dict(settings)], sort_keys=True, separators=(",", ":"))
    return blake2b(content.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class RevertRequested:
    """The pods of a workload get these requests and limits back, by container, and no recommendation until the revert ends.

    The same guards hold as for any other change.
    """

    at: datetime
    workload: Workload
    since: datetime
    # What the owner had asked for before the changes after `since`.
    requests: Mapping[str, Amounts]
    limits: Mapping[str, Amounts] = field(default_factory=dict)
    reason: str = ""
    by: Author | None = None

    @property
    def key(self) -> str:
        """The record key."""
        return f"revert/{self.workload.key}"


@dataclass(frozen=True, slots=True)
class RevertEnded:
    """Recommendations are applied to the workload again."""

    at: datetime
    workload: Workload
    by: Author | None = None

    @property
    def key(self) -> str:
        """The record key, that of the revert."""
        return f"revert/{self.workload.key}"
