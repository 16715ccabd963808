"""What a worker asks of Faust's consumer: what is ours, wait with a topic, read on from here, remember this offset.

The only file that touches Faust's privates (`_commit`, and the recovery service's `_build_highwaters`), which is why Faust's
version is pinned. Refuses to commit what is not assigned here: Faust's consumer thread dies of an empty commit.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import faust
from aiokafka.errors import IllegalStateError
from faust.tables.recovery import Recovery
from faust.types import TP


class Flow:
    """Faust's consumer in our words. Topics are wire names."""

    def __init__(self, app: faust.App) -> None:
        """`app` need not have started."""
        self.app = app

    def whole(self, topics: Iterable[str]) -> set[int]:
        """Partitions of which all these topics are assigned here."""
        have = self.app.assignor.assigned_actives()
        each = [{tp.partition for tp in have if tp.topic == topic} for topic in topics]
        return set.intersection(*each)

    def pause(self, topic: str, partition: int) -> None:
        """Fetch no more of it. What Faust has in hand of it is lost; the reader's own offset finds out."""
        self.app.consumer.pause_partitions({TP(topic, partition)})

    async def resume(self, topic: str, partition: int, offset: int) -> None:
        """Fetch again, from `offset`. Nothing if the partition was taken away meanwhile: recovery says where to read then."""
        tp = TP(topic, partition)
        self.app.consumer.resume_partitions({tp})
        with suppress(IllegalStateError):
            await self.app.consumer.seek(tp, offset)

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the group's offsets. They are a hint where to start reading: the marks are what counts."""
        have = self.app.consumer.assignment()
        ours = {TP(*place): offset for place, offset in offsets.items() if TP(*place) in have}
        if ours:
            consumer: Any = self.app.consumer
            await consumer._commit(ours)  # noqa: SLF001  # the public commit only knows messages it saw acked


def skip_reading(app: faust.App) -> None:
    """Let Faust's recovery call back without reading the changelogs. To be called before the tables are made."""
    tables: Any = app.tables
    tables._recovery = Unread(app, app.tables, beacon=tables.beacon)  # noqa: SLF001  # the class is not a setting


class Unread(Recovery):
    """Faust's table recovery without its reading: the worker reads changelogs itself, whole and beside Faust.

    Faust runs its callback before it knows that it has read all (a broken-off recovery looks like a finished one), so its
    reading could not be used anyway, and it would double the time to recover.
    """

    async def _build_highwaters(self, consumer: Any, tps: set[TP], destination: Any, title: str) -> None:  # noqa: ARG002  # Faust's
        """Every changelog ends where it begins."""
        destination.clear()
        destination.update(dict.fromkeys(tps, -1))
