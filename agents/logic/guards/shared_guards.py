"""Guards that apply to every kind of plan: pause, warm-up, old inputs, cool-down, and rate.

A stage asks its guards in order; the first objection holds. None of them has a memory of its own. Lengths of time are in seconds,
moments are turn numbers (milliseconds since the epoch).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from schemas.names import Place
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction, Seconds

C = TypeVar("C")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Objection:
    """Which guard objects, and its sentence."""

    guard: str
    reason: str


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """The control record of a cluster that is in force, and its place in the log."""

    event: ControlChanged
    place: Place


def first_objection(guards: Iterable[tuple[str, Callable[[C, S], str | None]]], candidate: C, situation: S) -> Objection | None:
    """The objection of the first guard that has one; None when the candidate may be planned for."""
    for name, guard in guards:
        reason = guard(candidate, situation)
        if reason is not None:
            return Objection(name, reason)
    return None


def mode(control: ControlRecord | None) -> Mode:
    """The mode of a cluster: shadow while it has no control record."""
    return Mode.SHADOW if control is None else control.event.mode


def budget(control: ControlRecord | None, default: Fraction) -> Fraction:
    """The share that may be away or being changed at one time: the control record's, or the default of the settings."""
    return default if control is None else control.event.budget


def paused(control: ControlRecord | None) -> str | None:
    """Nothing is planned for a cluster that is paused."""
    return None if control is None else control.event.pause


def warming_up(*, stage: str, now: int, first_turn: int, warm_up: Seconds) -> str | None:
    """Nothing is planned until the stage has seen enough turns to know its clusters."""
    seconds = (now - first_turn) / 1000
    if seconds < warm_up:
        return f"the {stage} has watched for {seconds:g} s; it acts after {warm_up:g} s"
    return None


def blind(*, fact: str, now: int, seen: int, within: Seconds) -> str | None:
    """Nothing is planned for a cluster whose facts stopped coming; `fact` names the kind, such as "pod fact"."""
    seconds = (now - seen) / 1000
    if seconds > within:
        return f"no {fact} of this cluster for {seconds:g} s; more than {within:g} s is flying blind"
    return None


def stale(*, what: str, now: int, taken: int, within: Seconds) -> str | None:
    """Nothing is planned on a decision of another stage that is too old; `what` names it, such as "recommendation"."""
    seconds = (now - taken) / 1000
    if seconds > within:
        return f"the {what} is {seconds:g} s old; more than {within:g} s is stale"
    return None


def cooling_down(*, subject: str, now: int, planned: int | None, cool_down: Seconds) -> str | None:
    """Nothing is planned for a subject that was planned for a short time ago; `subject` names its kind, such as "pod"."""
    if planned is None:
        return None
    seconds = (now - planned) / 1000
    if seconds < cool_down:
        return f"the {subject} was planned for {seconds:g} s ago; the next plan may follow after {cool_down:g} s"
    return None


def over_rate(*, planned: int, rate: int, interval: Seconds) -> str | None:
    """At most `rate` plans are made at one time."""
    if planned < rate:
        return None
    return f"{planned} plans were made this time; the rate is {rate} each {interval:g} s"
