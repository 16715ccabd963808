"""What an explanation consists of: records with their numbers and causes, outcomes, and what ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agents.why.harm import Harm
from schemas.names import Place


@dataclass(frozen=True, slots=True)
class ExplainedRecord:
    """One record of the explanation: its numbers and, of a decision, its `because`.

    `gone` is a sentence when the record cannot be shown; `more` counts the causes that are left out.
    """

    what: str
    at: datetime | None
    place: Place
    numbers: Mapping[str, object] = field(default_factory=dict)
    causes: tuple["ExplainedRecord", ...] = ()
    more: int = 0
    gone: str = ""
    because: Mapping[str, object] = field(default_factory=dict)
    exact: Mapping[str, object] = field(default_factory=dict)
    """Amounts with every digit, and the bounds of a recommendation."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was asked, the decision with all it rests on, and the outcomes that answer it.

    `awaits_outcome` says whether a consumer is to carry the decision out.
    """

    asked: str
    decision: ExplainedRecord
    outcomes: tuple[ExplainedRecord, ...]
    awaits_outcome: bool = False
    scaling: tuple[ExplainedRecord, ...] = ()
    """Of a workload: the newest decision about its replicas, and the forecasts of its load."""
    harm: tuple[Harm, ...] = ()
    """What ended in the pod or the workload that was asked about, and whether a change of ours did it."""
