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
    """One entry of the pipeline."""

    name: str
    reads: tuple[str, ...]  # In declared order: a turn's records are taken in that order.
    writes: tuple[str, ...]
    open: Callable[[int], State]  # Makes the empty state of a partition.
    # Says in a sentence why an event must not be taken in (it goes to dead-letters), or None; it is pure and knows only the
    # event.
    refuse: Callable[[Event], str | None] = accept_all
    ahead: Callable[[Event, int], str | None] = accept_always  # Asked next; it knows the turn's number as well.
    # Says of a decision of the stage that its bytes surely give an equal event, which the bounds of all events and `refuse` let
    # pass; a worker then need not read its own record of it.
    vouches: Callable[[Event], bool] = vouch_for_none
    # Counts the changes of the stage's code that change decisions, 0 for a stage that obeys no rules of the log.
    program: int = 0
    rules: Mapping[str, RuleValue] = field(default_factory=dict)  # The settings that it was made with.
    defaults: Mapping[str, RuleValue] = field(default_factory=dict)  # What they are where nobody sets them.
    # Among how many its states share what there is; None for a stage whose states do not ask.
    partitions: int | None = None

    def require(self, partitions: int) -> None:
        """Refuse another number of partitions: a state would leave out what it takes for another's. Raises ValueError."""
        if self.partitions not in (None, partitions):
            msg = f"stage '{self.name}' was made for {self.partitions} partitions, and the log has {partitions}"
            raise ValueError(msg)
