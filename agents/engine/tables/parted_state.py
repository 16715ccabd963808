"""State as tables: what a stage remembers, in pieces that a checkpoint can write one by one."""

from collections.abc import Iterable
from typing import Protocol


class StatePart(Protocol):
    """A part of a state; its name is the first word of its chunks' names."""

    name: str

    def chunks(self) -> Iterable[str]:
        """Names of all chunks."""
        ...

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        ...

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        ...

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk."""
        ...

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        ...


class PartedState:
    """A state made of parts: the dumping half of what a stage's state must do."""

    def __init__(self, *parts: StatePart) -> None:
        self._parts = {part.name: part for part in parts}

    def chunks(self) -> Iterable[str]:
        """Names of all chunks."""
        return [chunk for part in self._parts.values() for chunk in part.chunks()]

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        return {chunk for part in self._parts.values() for chunk in part.take_dirty()}

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        for part in self._parts.values():
            part.touch_all()

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk."""
        return self._parts[chunk.split("/", 1)[0]].dump(chunk)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        self._parts[chunk.split("/", 1)[0]].load(chunk, data)
