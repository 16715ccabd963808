"""What is fetched, sent or checkpointed together: records in order, in groups of so many bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def size_groups(records: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """The records in order, in groups of at most `most` bytes, each with at least one record."""
    group: list[T] = []
    together = 0
    for record in records:
        size = size_of(record)
        if group and together + size > most:
            yield group
            group, together = [], 0
        group.append(record)
        together += size
    if group:
        yield group
