"""An explanation: the records that it consists of, and its plain text, a line for each record.

The text has the decision, what it rests on as a tree, its outcomes, and what ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents.why import because_texts, event_descriptions, harm
from agents.why.harm import Harm
from schemas.names import Place


@dataclass(frozen=True, slots=True)
class ExplainedRecord:
    """One record of the explanation: its numbers and, of a decision, its `because`."""

    what: str
    at: datetime | None
    place: Place
    numbers: Mapping[str, object] = field(default_factory=dict)
    causes: tuple["ExplainedRecord", ...] = ()
    more: int = 0  # How many causes are left out.
    gone: str = ""  # A sentence when the record cannot be shown.
    because: Mapping[str, object] = field(default_factory=dict)
    exact: Mapping[str, object] = field(default_factory=dict)
    """Amounts with every digit, and the bounds of a recommendation."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was asked, the decision with all it rests on, and the outcomes that answer it."""

    asked: str
    decision: ExplainedRecord
    outcomes: tuple[ExplainedRecord, ...]
    awaits_outcome: bool = False  # Whether a consumer is to carry the decision out.
    scaling: tuple[ExplainedRecord, ...] = ()
    """Of a workload: the newest decision about its replicas, and the forecasts of its load."""
    harm: tuple[Harm, ...] = ()
    """What ended in the pod or the workload that was asked about, and whether a change of ours did it."""


_MOST_HARM = 3


def lines(explanation: Explanation, *, full: bool = False) -> Iterator[str]:
    """The explanation as plain text: the decision, what it rests on as a tree, and its outcomes.

    `full` writes every number as the record has it, in cores and bytes, and bounds; otherwise sentences with units.
    """
    yield from _lines(explanation.decision, "", "", full=full)
    if not explanation.outcomes and explanation.awaits_outcome:
        yield "no outcome yet: no consumer has finished with it"
    for outcome in explanation.outcomes:
        yield f"then: {_line(outcome)}"
    for shown in explanation.scaling:
        yield from _lines(shown, "", "", full=full)
    yield from _harm(explanation.harm, full=full)


def _harm(harms: Sequence[Harm], *, full: bool) -> Iterator[str]:
    """What ended, the newest in full, and how many of the others were whose; with `full` all of it."""
    if not harms:
        return
    shares = ", ".join(f"{count} {verdict.value}" for verdict, count in harm.counts(harms).items() if count)
    yield f"what ended here: {len(harms)} in all, {shares}"
    # The newest are what somebody asks about; the old ones would push the decision out of sight.
    hidden = 0 if full else max(0, len(harms) - _MOST_HARM)
    if hidden:
        yield f"   · {hidden} earlier {'one is' if hidden == 1 else 'ones are'} not shown: -v lists all"
    for ended in harms[hidden:]:
        yield f"{ended.at:%Y-%m-%d %H:%M:%S}  {ended.what}: {ended.verdict.value}"
        yield f"   · {ended.because}"
        yield f"   · before: {ended.before}"
        yield f"   · since: {'; '.join(ended.since)}"


def _lines(shown: ExplainedRecord, head: str, indent: str, *, full: bool) -> Iterator[str]:
    yield head + _line(shown)
    trunk = "│  " if shown.causes or shown.more else "   "
    for line in because_texts.in_full({**shown.exact, **shown.because}) if full else because_texts.in_words(shown.because):
        yield f"{indent}{trunk}· {line}"
    for i, cause in enumerate(shown.causes):
        last = i == len(shown.causes) - 1 and not shown.more
        ahead, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _lines(cause, indent + ahead, indent + below, full=full)
    if shown.more:
        yield f"{indent}└─ and {shown.more} more records"


def _line(shown: ExplainedRecord) -> str:
    if shown.gone:
        return f"{shown.what} at {shown.place} {shown.gone}"
    at = f"{shown.at:%Y-%m-%d %H:%M:%S}" if shown.at else "at no time"
    numbers = ", ".join(f"{name} {event_descriptions.text(value)}" for name, value in shown.numbers.items())
    return f"{at}  {shown.what}: {numbers}  [{shown.place}]"
