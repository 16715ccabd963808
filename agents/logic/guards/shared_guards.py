"""Guards that apply to every kind of plan: pause, warm-up, old inputs, cool-down, and rate.

A stage checks its guards in order, and the first objection decides. The guards are stateless. Lengths of time are in seconds;
moments are turn numbers (milliseconds since the epoch).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Protocol, TypeVar

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Turn
from schemas import times
from schemas.names import Place
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction, Seconds

REPORTS_WITHIN = Seconds(600.0)
"""After so long without a report of a source that sees the pods of a cluster, what is known of them is not acted on."""

_DOUBLINGS = 20

C = TypeVar("C")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Objection:
    """Which guard objects, and its sentence. `through`: the guard that the sentence is of, where it speaks through this one."""

    guard: str
    reason: str
    through: str = ""

    @property
    def name(self) -> str:
        """What distinguishes it from other objections to pods of one workload."""
        return f"{self.guard}-{self.through}" if self.through else self.guard


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """The control record in force for a cluster, and its place in the log."""

    event: ControlChanged
    """As it is in force in the newest turn, with what its schedules make of it."""
    place: Place
    said: ControlChanged | None = None
    """What the record says, where it has schedules."""


def obey(table: ObjectTable[ControlRecord], turn: Turn, owns: Callable[[str], bool] = lambda _cluster: True) -> None:
    """Take in the control records of a turn, of the clusters that the partition `owns`; schedules begin and end by its time."""
    for recorded in turn.of("control"):
        if isinstance(recorded.event, ControlChanged) and owns(recorded.event.cluster):
            event = recorded.event
            # Only a record with schedules is kept as it was written: the loop below evaluates it anew in each turn.
            table.upsert(event.cluster, ControlRecord(event, recorded.place, event if event.schedules else None))
    now = times.from_ms(turn.number)
    # A copy, because the loop writes into the table.
    for cluster, record in list(table.items()):
        if record.said is not None and (event := record.said.in_force_at(now)) != record.event:
            table.upsert(cluster, replace(record, event=event))


def first_objection(guards: Iterable[tuple[str, Callable[[C, S], str | None]]], candidate: C, situation: S) -> Objection | None:
    """The objection of the first guard that has one; None if the stage may plan for the candidate."""
    for name, guard in guards:
        reason = guard(candidate, situation)
        if reason is not None:
            return Objection(name, reason)
    return None


def mode(control: ControlRecord | None) -> Mode:
    """The mode of a cluster."""
    # Nobody's pod is touched before a person has asked for it.
    return Mode.SHADOW if control is None else control.event.mode


def budget(control: ControlRecord | None, default: Fraction) -> Fraction:
    """The share of members that may be away or changing at one time: the control record's, or the settings' default."""
    return default if control is None else control.event.budget


def paused(control: ControlRecord | None) -> str | None:
    """Objects while the cluster is paused, with the text of the pause."""
    return None if control is None else control.event.pause


def warming_up(*, stage: str, now: int, first_turn: int, warm_up: Seconds) -> str | None:
    """Objects until the stage has seen enough turns to know its clusters."""
    seconds = (now - first_turn) / 1000
    if seconds < warm_up:
        return f"the {stage} has watched for {seconds:g} s; it acts after {warm_up:g} s"
    return None


def blind(*, fact: str, now: int, seen: int, within: Seconds) -> str | None:
    """Objects when a cluster's facts have stopped arriving; `fact` names their kind, such as "pod fact"."""
    seconds = (now - seen) / 1000
    if seconds > within:
        return f"no {fact} of this cluster for {seconds:g} s; more than {within:g} s is flying blind"
    return None


def stale(*, what: str, now: int, taken: int, within: Seconds) -> str | None:
    """Objects when a decision of another stage is too old to plan on; `what` names it, such as "recommendation"."""
    seconds = (now - taken) / 1000
    if seconds > within:
        return f"the {what} is {seconds:g} s old; more than {within:g} s is stale"
    return None


def cooling_down(*, subject: str, now: int, planned: int | None, cool_down: Seconds) -> str | None:
    """Objects when the last plan for a subject was only a short time ago; `subject` names its kind, such as "pod"."""
    if planned is None:
        return None
    seconds = (now - planned) / 1000
    if seconds < cool_down:
        return f"the {subject} was planned for {seconds:g} s ago; the next plan may follow after {cool_down:g} s"
    return None


def over_rate(*, planned: int, rate: int, interval: Seconds, plans: str = "plans") -> str | None:
    """Objects once `rate` plans have been made in this round; `plans` names their kind."""
    if planned < rate:
        return None
    return f"{planned} {plans} were made this time; the rate is {rate} each {interval:g} s"


@dataclass(frozen=True, slots=True)
class PlanExpiry:
    """The two limits of a plan; `stale_after` is None when no input becomes stale before the plan expires anyway."""

    expires: datetime
    stale_after: datetime | None = None


class Plan(Protocol):
    """A decision that can become void."""

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""


def plan_expiry(turn: Turn, *, lifetime: Seconds, inputs: Iterable[tuple[int, Seconds]] = ()) -> PlanExpiry:
    """The limits of a plan made in `turn`. `inputs`: for each input, its turn and for how many seconds it stays fresh."""
    expires = turn.at + timedelta(seconds=lifetime)
    # A guard lets a plan pass while an input is fresh. Without this limit, a plan that passes at the last moment would be carried
    # out on an input that the same guard calls stale by then.
    ends = min((taken + int(within * 1000) for taken, within in inputs), default=None)
    if ends is None or ends >= times.to_ms(expires):
        return PlanExpiry(expires)
    return PlanExpiry(expires, times.from_ms(ends))


def last_turn(plan: Plan) -> int:
    """The number of the last turn in which a plan may still be carried out."""
    return times.to_ms(plan.void_after)


@dataclass(slots=True)
class Headcount:
    """How many members a group should have, how many of them serve, and how many of the serving ones have an open plan.

    Of those that should be there, `missing` ones are not, and `down` ones are there without serving and without a plan.
    `guessed`: how many of the missing ones are only believed to be wanted, and not because of us; they count in no larger group.
    """

    live: int = 0
    running: int = 0
    acting: int = 0
    missing: int = 0
    down: int = 0
    guessed: int = 0

    def count(self, *, running: bool, acting: bool) -> None:
        """Count one more member. One with an open plan counts as running until a fact shows that it no longer runs."""
        self.live += 1
        self.running += running
        # A member that is planned for and already down is away once, not twice.
        self.acting += acting and running

    def add(self, other: "Headcount") -> None:
        """Count the members of a smaller group as well."""
        # A guess about one workload's missing pods must not close the budget of the whole cluster.
        self.live += other.live - other.guessed
        self.running += other.running
        self.acting += other.acting
        self.missing += other.missing - other.guessed
        self.down += other.down

    @property
    def away(self) -> int:
        """How many members do not serve or are being changed."""
        return self.live - self.running + self.acting

    def within(self, share: Fraction, spared: int = 0) -> bool:
        """Whether one more member may be away. One always may, because otherwise a small group could never be changed.

        `spared`: so many of those that are away do not count.
        """
        return self.away - spared < max(1, int(self.live * share))


def beyond_shares(groups: Iterable[Headcount]) -> Callable[[Fraction], int]:
    """How many members are not there or do not serve beyond the share of their own group, by that share.

    What one group lacks must not hold back all others for ever: each counts up to its own budget, which is also the most that is
    taken from it, so that whatever we took away is counted.
    """
    # As they are now: what is planned from now on only adds to what each group counts for.
    lacking = [(group.live, group.away, group.missing + group.down) for group in groups if group.missing or group.down]

    @cache
    def beyond(share: Fraction) -> int:
        return sum(min(lacks, max(0, away - max(1, int(live * share)))) for live, away, lacks in lacking)

    return beyond


def over_budget(group: str, headcount: Headcount, share: Fraction, members: str = "pods", *, spared: int = 0) -> str | None:
    """Why no further member may be changed, as a sentence; None while the budget allows one. `group`: such as "cluster"."""
    if headcount.within(share, spared):
        return None
    away = f"{headcount.away - spared} of the {group}'s {headcount.live} {members} are away or being changed"
    absent = f" ({headcount.missing} are missing)" if headcount.missing else ""
    return f"{away}{absent}; the budget is {share:g} of them"


def doubled(first: float, count: int, *, longest: float) -> float:
    """Seconds of the pause after so many failures in a row: `first` after one, twice as many after each further one."""
    return min(first * 2.0 ** min(count - 1, _DOUBLINGS), longest)
