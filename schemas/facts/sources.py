"""Facts about the sources themselves: that one is at work, and which topics it can vouch for."""

from dataclasses import dataclass
from datetime import datetime

from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class SourceReported:
    """A source says that it is at work: it sees what it would have to tell. Said again each `period`, so silence can be told.

    `sees`: the topics (short names) whose facts it would tell. A source that cannot see something leaves its topic out.
    `lacks`: a sentence for each thing that it was told to look at and does not find or may not see; it goes on without.
    """

    at: datetime
    cluster: str
    source: str
    sees: tuple[str, ...]
    period: Seconds = Seconds(60.0)
    lacks: tuple[str, ...] = ()
