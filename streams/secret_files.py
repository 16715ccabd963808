"""Reads the files that hold one secret each, such as a token. They are read again and again, by processes that nobody watches.

So a pipe, which may never end, is refused, and so is what is too long for any secret. Links are followed: in a mounted Secret all
files are links.
"""

from pathlib import Path

from streams import yaml_reader
from streams.errors import BadInput

MOST_BYTES = 64 << 10


def read(path: Path, what: str) -> str:
    """The secret, without white space around it. Raises BadInput, which begins with `what` and does not quote the content."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{what} cannot be read: it is no file")
    return yaml_reader.read_text(path, what, MOST_BYTES).strip()
