"""Reads the files that hold one secret each, such as a token, within a bound that no secret reaches."""

from pathlib import Path

from streams import yaml_reader
from streams.errors import BadInput

MOST_BYTES = 64 << 10


def read(path: Path, what: str) -> str:
    """The secret, without white space around it. Raises BadInput, which begins with `what` and does not quote the content."""
    _refuse_what_is_no_file(path, what)
    return yaml_reader.read_text(path, what, MOST_BYTES).strip()


def read_key(path: Path, what: str) -> bytes:
    """A key, which may be any bytes, without white space around it. Raises BadInput, likewise."""
    _refuse_what_is_no_file(path, what)
    return yaml_reader.read_bytes(path, what, MOST_BYTES).strip()


def _refuse_what_is_no_file(path: Path, what: str) -> None:
    # A pipe may never end, and these files are read again and again by processes that nobody watches. Links are followed, because
    # in a mounted Secret all files are links.
    if path.exists() and not path.is_file():
        raise BadInput(f"{what} cannot be read: it is no file")
