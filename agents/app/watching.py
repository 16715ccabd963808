"""What a worker says of itself: log lines for what is rare, metrics for what is not."""

import json
import sys

from agents.app.held import Held
from agents.task import Taken
from streams.log import Record


class Watch:
    """Counts and says."""

    def turn(self, stage: str, held: Held, taken: Taken, seconds: float) -> None:
        """A turn was taken."""

    def gap(self, came: Record, wanted: int) -> None:
        """Faust jumped, or the log has a hole."""
        _say("gap", topic=came.topic, partition=came.partition, wanted=wanted, came=came.offset)

    def lost(self, topic: str, partition: int, first: int, after: int) -> None:
        """Retention took records before they were read."""
        _say("LOST", topic=topic, partition=partition, first=first, next=after)

    def checkpoint(self, stage: str, held: Held, size: int, seconds: float) -> None:
        """A mark is in force."""

    def recovered(self, stage: str, held: Held, how: str, broken: int = 0) -> None:
        """A partition's state is at its newest known turn."""
        _say("recovered", stage=stage, partition=held.task.partition, how=how, turn=held.task.turn, broken=broken)

    def state_gone(self, stage: str, partition: int) -> None:
        """A group that has read before finds no state."""
        _say("STATE GONE", stage=stage, partition=partition)

    def opened(self, partitions: dict[str, list[int]]) -> None:
        """Recovery is done."""
        _say("opened", **partitions)


def _say(event: str, **fields: object) -> None:
    sys.stderr.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stderr.flush()
