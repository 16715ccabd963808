"""Tells plans that a turn made from records that somebody else put among them, and from those that have an outcome already.

A turn attests to its plans in a topic of its own, so whoever may write only the plans' topic makes no consumer act, whatever the
record says of itself. A plan waits until the turn that its id names has attested to it. Workers append that first, so an honest
plan hardly ever waits. One that has waited for `PATIENCE` is called forged.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.decisions.plan_attestations import PlansAttested
from schemas.ids import DecisionId
from schemas.names import Place
from schemas.outcomes import ActionFinished
from streams.codec import plan_attestations
from streams.consumers.executing.handler import PendingDecision
from streams.errors import ForgedPlan
from streams.log.log_port import Record
from streams.topics import REACH_MS

# A worker that recovers publishes decisions again, but only what it can recompute from its inputs, which are kept for so long.
REACH = timedelta(milliseconds=REACH_MS)


class OutcomeIndex:
    """The ids of decisions that have an outcome, complete for decisions taken at or after `since`."""

    def __init__(self, now: datetime) -> None:
        self.since = now - REACH
        self._ids: OrderedDict[str, datetime] = OrderedDict()

    def apply(self, outcome: ActionFinished) -> None:
        """Remember that the outcome's decision has one."""
        self._ids.setdefault(outcome.decision, outcome.at)

    def __contains__(self, decision: str) -> bool:
        """Whether a decision that was taken at or after `since` has an outcome, by its id."""
        return decision in self._ids

    def __len__(self) -> int:
        """How many decisions are remembered."""
        return len(self._ids)

    def expire(self, now: datetime) -> None:
        """Forget what is out of reach at `now`."""
        self.since = max(self.since, now - REACH)
        # An outcome is never older than its decision, so what goes here belongs to a decision that is out of reach, too.
        while self._ids and next(iter(self._ids.values())) < self.since:
            self._ids.popitem(last=False)


PATIENCE = 30.0
"""Real seconds that a plan waits for its attestation before it is called forged."""
MOST_WAITING = 10_000
"""Plans without an attestation that are kept; the oldest are given up beyond that, so that a flood of them costs no memory."""
_SWEEP = timedelta(hours=1)
"""Event time between two looks for attestations that nobody needs any more."""


_Turn = tuple[str, int, int]
"""Stage, partition and number."""


@dataclass(slots=True)
class _Unattested:
    """A plan whose attestation has not come. `since` is real time, and None once the plan was called forged.

    The digest is kept, because a plan that no turn made is compared again in each round.
    """

    record: Record
    pending: PendingDecision
    turn: _Turn | None
    digest: str
    since: float | None


class PlanEvidence:
    """What turns have attested to, and the plans that wait for it. `clock` counts real seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turns: dict[_Turn, tuple[datetime, frozenset[str]]] = {}
        """The time of each turn that made plans, and their digests."""
        self._waiting: dict[Place, _Unattested] = {}
        self._next_sweep: datetime | None = None

    def attest(self, event: PlansAttested) -> None:
        """Remember the plans of a turn."""
        turn = _turn(event.id)
        if turn is not None:
            # A turn may attest more than once: a worker that died in the middle of it takes it again.
            _, before = self._turns.get(turn, (event.at, frozenset()))
            self._turns[turn] = event.at, before.union(event.digests)

    def add(self, record: Record, pending: PendingDecision) -> None:
        """A plan that was read."""
        turn, digest = _turn(pending.decision.id), plan_attestations.digest(record)
        self._waiting[record.place] = _Unattested(record, pending, turn, digest, self._clock())

    def proven(self) -> Iterator[PendingDecision]:
        """The plans whose attestation is there, in the order of the log; they no longer wait."""
        for place, plan in list(self._waiting.items()):
            attested = None if plan.turn is None else self._turns.get(plan.turn)
            if attested is not None and plan.digest in attested[1]:
                del self._waiting[place]
                yield plan.pending
            else:
                plan.pending.unsure = True  # until it is proven, another instance may come and go

    def forged(self, now: datetime) -> Iterator[tuple[Record, ForgedPlan]]:
        """The plans that have waited too long, each once, with the reason. What is void at event time `now` is dropped."""
        surplus = len(self._waiting) - MOST_WAITING
        for number, (place, plan) in enumerate(list(self._waiting.items())):
            over = number < surplus or now > plan.pending.follow_until
            if plan.since is not None and (over or self._clock() - plan.since >= PATIENCE):
                # It stays: a worker may have died between plan and attestation, and the next one attests to it again.
                plan.since = None
                yield plan.record, ForgedPlan(self._sentence(plan), "$.id")
            if over:
                del self._waiting[place]

    def expire(self, now: datetime) -> None:
        """Forget attestations to plans that are out of reach at `now`."""
        if self._next_sweep is None or now >= self._next_sweep:
            self._next_sweep = now + _SWEEP
            self._turns = {turn: attested for turn, attested in self._turns.items() if attested[0] >= now - REACH}

    def _sentence(self, plan: _Unattested) -> str:
        """What speaks against a plan, for the people whom the alert calls."""
        if plan.turn is None:
            return f"no turn made this plan: '{plan.pending.decision.id}' names no turn"
        stage, partition, number = plan.turn
        name = f"turn {number} of {stage}/{partition}"
        if plan.turn in self._turns:
            return f"no turn made this plan: {name} attests to other plans, and to none with this content"
        return f"no turn made this plan: {name}, which it names, attests to no plan"


def _turn(identifier: str) -> _Turn | None:
    """The turn that an id names; None for an id of another form."""
    try:
        identity = DecisionId.parse(identifier)
    except ValueError:
        return None
    return identity.stage, identity.partition, identity.turn
