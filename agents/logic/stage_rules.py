"""The rules that a stage decides by: those of the newest record in the log, else those it was made with.

Rules in the log hold for every worker from one turn on, so two workers with other settings still decide alike, and a replay uses
what was in force. A log without such a record is decided by the settings that the stage was made with.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, get_args, runtime_checkable

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded
from schemas import bounds
from schemas.decisions.recommendations import CitedRules
from schemas.names import Place
from schemas.policies.control import RuleValue, StageRulesChanged
from schemas.units import Bytes, Cores, Fraction, Seconds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    # typeshed alone has a name for "any dataclass", and typeshed is not there at run time.
    S = TypeVar("S", bound=DataclassInstance)
else:
    S = TypeVar("S")

_LEAST = 0.001
_DIVIDE = {
    "interval",
    "refit",
    "memory_window",
    "memory_windows",
    "cpu_half_life",
    "memory_half_life",
    "round_cpu",
    "round_memory",
}
"""Something is divided by these."""
_SIGNED = {"pod_priority_cutoff"}
"""These may be negative."""
_MOST: Mapping[object, float] = {Fraction: 1, Seconds: 100 * 366 * 86_400, Cores: bounds.MOST_CORES, Bytes: bounds.MOST_BYTES}
_SHARES_OF_MORE = {"margin": 100.0, "threshold": 100.0, "bounds_step": 100.0, "leak_growth": 100.0}
"""Shares of something that may be exceeded."""


@dataclass(frozen=True, slots=True)
class RecordedRules:
    """The rules of the newest record, and its place in the log."""

    version: str
    settings: Mapping[str, RuleValue]
    place: Place


@runtime_checkable
class SelfChecked(Protocol):
    """Settings that know more of themselves than their types say."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """The name of each setting that cannot be, and why."""
        ...


class StageRules(Generic[S]):
    """The rules in force of one stage in one partition. `own` are the settings that it was made with."""

    def __init__(self, stage: str, own: S) -> None:
        self._stage, self._own = stage, own
        self.table: ObjectTable[RecordedRules] = ObjectTable("rules", RecordedRules, 1)
        self._in_force: tuple[RecordedRules | None, S] = None, own
        """The newest record when it was last asked for, and its settings."""

    def ingest(self, records: Iterable[Recorded]) -> None:
        """Take the records of a turn in. The last one about this stage counts that its settings can follow."""
        for recorded in records:
            event = recorded.event
            # Rules of another program may have settings that this one does not know; then the rules before them stay in force.
            if isinstance(event, StageRulesChanged) and event.stage == self._stage and not fault(type(self._own), event.settings):
                self.table.upsert(self._stage, RecordedRules(event.version, event.settings, recorded.place))

    @property
    def settings(self) -> S:
        """The settings in force."""
        recorded = self.table.get(self._stage)
        # Settings are asked for many times a turn, and a table returns the same object until it changes.
        if recorded is not self._in_force[0]:
            self._in_force = recorded, self._own if recorded is None else settings_of(type(self._own), recorded.settings)
        return self._in_force[1]

    @property
    def cited(self) -> CitedRules | None:
        """What a decision says of the rules in force; None where the log has none."""
        recorded = self.table.get(self._stage)
        return None if recorded is None else CitedRules(recorded.version, recorded.place)


def settings_of(kind: type[S], rules: Mapping[str, RuleValue]) -> S:
    """Settings from a record. What it does not name is the default. Raises TypeError for a name that is no setting."""
    return kind(**rules)


def fault(kind: type[S], rules: Mapping[str, RuleValue]) -> str | None:
    """Why a record cannot be the settings of this kind; None if it can."""
    defaults = {field.name: field.default for field in fields(kind)}
    for name, value in rules.items():
        if name not in defaults:
            return f"settings.{name} is no setting of this program"
        if not _fits(value, defaults[name]):
            return f"settings.{name} is {value!r}, and its default is {defaults[name]!r}"
    return next((f"settings.{name} is {rules.get(name)}; {why}" for name, why in odd(settings_of(kind, rules))), None)


def _fits(value: RuleValue, default: object) -> bool:
    """Whether a value is of the kind of a default. A setting whose default is None is a number or None."""
    # Python takes True for the number 1, so booleans are told apart first.
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, str) or isinstance(value, str):
        return isinstance(default, str) and isinstance(value, str)
    return value is not None or default is None


def odd(settings: S) -> Iterator[tuple[str, str]]:
    """The name of each setting that would stop a stage or can only be a slip of the pen, such as a percentile of 90, and why."""
    for field in fields(settings):
        name, value = field.name, getattr(settings, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or name in _SIGNED:
            continue
        least = _LEAST if name in _DIVIDE else 0
        if not (math.isfinite(value) and value >= least):
            yield name, f"it must be a number that is not below {least:g}"
        elif value > (most := _most(name, field.type)):
            share = ", a share of 1 as in 0.9 for 90 %" if most == 1 else ""
            yield name, f"it must not be above {most:g}{share}"
    # mypy cannot narrow a type variable by a protocol, but it can narrow `object`.
    checked: object = settings
    if isinstance(checked, SelfChecked):
        yield from checked.faults()


def _most(name: str, kind: object) -> float:
    """The largest value that makes sense for a setting, by its unit."""
    if name in _SHARES_OF_MORE:
        return _SHARES_OF_MORE[name]
    units = get_args(kind) or (kind,)
    return next((most for unit, most in _MOST.items() if unit in units), bounds.MOST_NUMBER)
