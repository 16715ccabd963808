"""JSON as events are written in it: sorted names, times in UTC, arrays as lists; and objects that are kept as their text."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import orjson

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z | orjson.OPT_SORT_KEYS


def dumps(value: object) -> bytes:
    """The same value always gives the same bytes. Raises TypeError for what JSON cannot carry."""
    return fitted(orjson.dumps(value, default=_to_plain, option=_OPTIONS))


def fitted(text: bytes) -> bytes:
    """The same bytes, of orjson, in memory of their own size."""
    # orjson 3.12 and later reserve for the worst case and never give it back: 2 kB of JSON hold 16 kB. A copy takes 0.15 us.
    return b"%b" % text


def joined(texts: Mapping[str, str]) -> str:
    """The object with these names, of whose values the texts are given, as `dumps` writes it."""
    return f"{{{','.join([f'{quoted(name)}:{texts[name]}' for name in sorted(texts)])}}}"


@lru_cache(maxsize=1 << 14)
def quoted(name: str) -> str:
    """A name that many events have, as JSON."""
    return dumps(name).decode()


@dataclass(slots=True)
class WrittenEvent:
    """An event whose body is written already: its class, its id if it has one, its time, and its body as the log has it."""

    kind: type
    id: str | None
    at: datetime
    body: bytes


class JsonObject(Mapping[str, object]):
    """An object that is written once and read only by whoever wants to know. It equals any mapping with the same content."""

    __slots__ = ("_make", "_read", "_text")

    def __init__(self, make: Callable[[], bytes]) -> None:
        """`make` gives the text when it is first needed, and is dropped then with all that it holds."""
        self._make: Callable[[], bytes] | None = make
        self._text, self._read = b"", dict[str, object]()

    @property
    def text(self) -> bytes:
        """The object as `dumps` writes it."""
        if self._make is not None:
            self._text, self._make = self._make(), None
        return self._text

    def _content(self) -> dict[str, object]:
        if not self._read:
            self._read = orjson.loads(self.text)
        return self._read

    def __getitem__(self, name: str) -> object:
        return self._content()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content())

    def __len__(self) -> int:
        return len(self._content())

    def __repr__(self) -> str:
        return repr(self._content())


def _to_plain(value: object) -> object:
    """Converts what orjson cannot write: mappings other than dicts, and arrays with an unusual layout."""
    # Written as it stands: to read it and write it again would cost what keeping its text saves.
    if isinstance(value, JsonObject):
        return orjson.Fragment(value.text)
    if isinstance(value, Mapping):
        return dict(value)
    numpy = sys.modules.get("numpy")  # not loaded here: without it there is no array
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in an event")
