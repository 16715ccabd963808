"""What a verification compared and found, and the lines that say so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from schemas.times import from_ms

_PLACES = 3
SHOWN = 100
"""Discrepancies whose text is kept; the rest is only counted."""

Part = tuple[str, int]
"""Stage and partition."""


class DiscrepancyKind(StrEnum):
    """What can be wrong."""

    MISSING = "missing"
    DIFFERENT = "different"
    EXTRA = "extra"
    INPUTS = "other inputs"
    MARK = "refused mark"
    TWO_CONTENTS = "two contents under one id"
    UNREACHABLE = "cannot be verified"


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing that is wrong, as a sentence that names the place."""

    kind: DiscrepancyKind
    stage: str
    partition: int
    says: str


@dataclass(slots=True)
class VerificationReport:
    """What was compared, and what is wrong."""

    turns: int = 0
    decisions: int = 0
    older: int = 0
    """Decisions that an older version of their type published; they are among `decisions`."""
    repeats: int = 0
    waiting: int = 0
    forgotten: int = 0
    # The inputs (one topic of one partition) that were compared with what a worker had read, up to its newest mark.
    digested: int = 0
    read: dict[tuple[str, int], int] = field(default_factory=dict)
    """By topic (wire name) and partition, the offset up to which inputs were read."""
    proven: dict[tuple[str, int], int] = field(default_factory=dict)
    """... and up to which they are, by digest, what a worker had read."""
    undigested: list[str] = field(default_factory=list)
    """A sentence for each input that cannot be compared with what the worker read."""
    foreign: list[str] = field(default_factory=list)
    """A sentence for each partition of a stage with turns that were decided by rules that this program does not have."""
    absent: list[str] = field(default_factory=list)
    """A sentence for each stage that the log is older than: nothing of it is compared."""
    live: list[Part] = field(default_factory=list)
    """Partitions with turns after the newest mark and a running worker: their missing decisions may be in flight."""
    dead: list[Part] = field(default_factory=list)
    """Partitions with turns after the newest mark and no running worker: all their decisions must be published."""
    newest: dict[Part, int] = field(default_factory=dict)  # The last turn of each partition that was compared in full.
    counts: dict[DiscrepancyKind, int] = field(default_factory=dict)
    discrepancies: list[Discrepancy] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every recomputed decision is as published, nothing else was published, and nothing was out of reach.

        Turns under rules of another program (`foreign`) were not recomputed.
        """
        return not self.counts

    def add(self, discrepancy: Discrepancy, count: int = 1) -> None:
        """Count it, and keep its text while there is room. `count`: how many records have it."""
        self.counts[discrepancy.kind] = self.counts.get(discrepancy.kind, 0) + count
        if len(self.discrepancies) < SHOWN:
            self.discrepancies.append(discrepancy)


def report_lines(report: VerificationReport) -> Iterator[str]:
    """The report as plain text: what was compared, how far, and each discrepancy."""
    yield f"{report.turns} turns and {report.decisions} decisions compared, {report.repeats} repeats with equal bytes"
    if report.older:
        yield f"{report.older} of them were published by an older version and compared in the fields that both versions have"
    for (stage, partition), turn in sorted(report.newest.items()):
        upto = f"up to turn {turn} ({from_ms(turn):%Y-%m-%d %H:%M:%S})" if turn >= 0 else "nothing published"
        yield f"{stage}, partition {partition}: {upto}"
    yield f"{report.digested} inputs are as the workers read them, up to their newest marks"
    yield from (f"not compared: {says}" for says in report.absent)
    yield from (f"not proven: {says}" for says in report.undigested)
    yield from (f"not compared: {says}" for says in report.foreign)
    if report.dead:
        yield f"nobody is at work on {_parts(report.dead)}: every turn must be published, those after the newest mark, too"
    if report.live:
        yield f"workers are at work on {_parts(report.live)}: what follows their newest marks may be in flight"
    if report.waiting:
        yield f"{report.waiting} decisions of later turns are not published yet: the workers' marks say that they are in flight"
    if report.forgotten:
        yield f"{report.forgotten} decisions were published before the first offset that their topic keeps"
    for discrepancy in report.discrepancies:
        yield f"{discrepancy.kind}: {discrepancy.stage}, partition {discrepancy.partition}: {discrepancy.says}"
    for kind, count in report.counts.items():
        yield f"{kind}: {count} in all"
    yield from _proofs(report)
    upto = " up to the workers' marks" if report.waiting else ""
    compared = " that was compared" if report.foreign else ""
    # What could not be read may hide anything, so this is no proof, though nothing differs.
    if report.counts.keys() == {DiscrepancyKind.UNREACHABLE}:
        unread = report.counts[DiscrepancyKind.UNREACHABLE]
        yield f"NOT verified: nothing that was compared differs, but {unread} lines say what was not"
    else:
        yield f"every decision{compared}{upto} is as published" if report.ok else "NOT as published"


def _proofs(report: VerificationReport) -> Iterator[str]:
    """What the verdict rests on, and what it says nothing of."""
    uncovered = {
        place: (report.proven.get(place, 0), end) for place, end in report.read.items() if report.proven.get(place, 0) < end
    }
    inputs = len(report.read.keys() & report.proven.keys())
    yield f"proven: {report.decisions} decisions, recomputed from what the log has; {inputs} inputs, by digests of what was read"
    if not uncovered:
        return
    records = sum(end - begin for begin, end in uncovered.values())
    places = [f"'{wire}' partition {p} from offset {begin}" for (wire, p), (begin, _) in sorted(uncovered.items())]
    more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
    yield (
        f"not proven: {records} records of inputs that no digest covers, of which a change shows only if it changes a decision: "
        f"{', '.join(places[:_PLACES])}{more}"
    )


def _parts(parts: Sequence[Part]) -> str:
    """As in: recommender 0, 1; updater 0."""
    by_stage: dict[str, list[int]] = {}
    for stage, partition in sorted(parts):
        by_stage.setdefault(stage, []).append(partition)
    return "; ".join(f"{stage} {', '.join(map(str, partitions))}" for stage, partitions in by_stage.items())
