"""Which part of an installation runs here, where one process holds several of them; commands find it without loading any part.

Threads and tasks of a part carry the context variable.
"""

import threading
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PresentPart:
    """A part by its name, and what is set when all parts of the process are to end."""

    name: str
    ending: threading.Event


PRESENT: ContextVar[PresentPart | None] = ContextVar("ullage_process_part", default=None)
"""None in a process of one part."""
