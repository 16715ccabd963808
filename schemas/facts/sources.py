"""Facts about the sources themselves: that one is running, and which topics it reports completely."""

from dataclasses import dataclass
from datetime import datetime

from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class SourceReported:
    """A source reports that it is running and sees what it has to report.

    It repeats this each `period`.
    """

    at: datetime
    cluster: str
    source: str
    # The topics (short names) whose facts it publishes; a source that cannot see something leaves its topic out.
    sees: tuple[str, ...]
    # Said by the source itself, so that its silence is noticed whatever its settings are.
    period: Seconds = Seconds(60.0)
    # A sentence for each thing that it is configured to watch and does not find or may not read; it goes on without.
    lacks: tuple[str, ...] = ()
