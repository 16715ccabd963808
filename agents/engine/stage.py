"""A stage: a pure function with state, and the topics it reads and writes. Data only; drivers host it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agents.engine.turn import State
from schemas.catalogue import Event
from schemas.policies.control import RuleValue


def accept_all(_event: Event) -> str | None:
    """The default: no event is refused."""
    return None


def vouch_for_none(_event: Event) -> bool:
    """The default: every record of a decision has to be read back."""
    return False


def accept_always(_event: Event, _turn: int) -> str | None:
    """The default: no event comes too early."""
    return None


@dataclass(frozen=True, slots=True)
class Stage:
    """One entry of the pipeline. `reads` is in declared order: a turn's records are taken in that order.

    `open` makes the empty state of a partition. `refuse` says in a sentence why an event must not be taken in (it goes to
    dead-letters), or None; it is pure and knows only the event. `ahead` is asked next and knows the turn's number as well.
    `vouches` says of a decision of the stage that its bytes surely give an equal event, which the bounds of all events and
    `refuse` let pass; a worker then need not read its own record of it.
    `program` counts the changes of the stage's code that change decisions, 0 for a stage that obeys no rules of the log; `rules`
    are the settings that it was made with, and `defaults` what they are where nobody sets them.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    open: Callable[[int], State]
    refuse: Callable[[Event], str | None] = accept_all
    ahead: Callable[[Event, int], str | None] = accept_always
    vouches: Callable[[Event], bool] = vouch_for_none
    program: int = 0
    rules: Mapping[str, RuleValue] = field(default_factory=dict)
    defaults: Mapping[str, RuleValue] = field(default_factory=dict)
