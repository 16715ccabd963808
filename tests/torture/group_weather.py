"""What people and AWS do to groups while all are at work: processes suspended, instances refreshed, put aside or kept warm.

One thing at a time lasts for some seconds, one after the other, so that a short run meets all of them. One group is deleted.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from tests.torture.node_cloud import DELETED, RecordingAws

LEAST, MOST = 3.0, 6.0
"""Seconds of real time for which a switch is set, and for which none is."""
WARM = "Warmed:Stopped"


@dataclass
class GroupWeather:
    """Sets switches of these groups; `marked` tells the instances that are about to go, which nobody puts aside."""

    aws: RecordingAws
    chance: random.Random
    groups: Sequence[str]
    marked: Callable[[], set[str]]
    done: Counter[str] = field(default_factory=Counter)
    """How often each switch was set."""

    def __post_init__(self) -> None:
        self._next = 0.0
        self._lift: Callable[[], None] | None = None
        self._kinds: Iterator[Callable[[str], Callable[[], None] | None]] = cycle(
            (self._deleted, self._terminate, self._aside, self._launch, self._refresh)
        )

    def warm(self, group: str) -> None:
        """One of the two instances of a group is in its warm pool, for ever."""
        first, *_ = self.aws.instances(group)
        self.aws.lifecycle(group, first, WARM)
        self.aws.switch(group, desired_capacity=self.aws.desired(group) - 1)

    def passes(self) -> None:
        """Set a switch or take it back when it is time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.chance.uniform(LEAST, MOST)
        self.aws.switched = time.monotonic()
        if self._lift is not None:
            self.clear()
        else:
            self._lift = next(self._kinds)(self.chance.choice(self.groups))

    def clear(self) -> None:
        """Take back what is set."""
        lift, self._lift = self._lift, None
        if lift is not None:
            lift()

    def _suspended(self, group: str, process: str) -> Callable[[], None]:
        client = self.aws.sdk("autoscaling")
        client.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=[process])
        self.done[f"{process} suspended"] += 1
        return lambda: client.resume_processes(AutoScalingGroupName=group, ScalingProcesses=[process])

    def _terminate(self, group: str) -> Callable[[], None]:
        return self._suspended(group, "Terminate")

    def _launch(self, group: str) -> Callable[[], None]:
        return self._suspended(group, "Launch")

    def _refresh(self, group: str) -> Callable[[], None]:
        self.aws.refresh(group, "InProgress")
        self.done["refreshed"] += 1
        return lambda: self.aws.refresh(group, "Successful")

    def _aside(self, group: str) -> Callable[[], None] | None:
        """Somebody works on an instance, and the group wants one fewer for so long."""
        client, free = self.aws.sdk("autoscaling"), sorted(set(self.aws.in_service(group)) - self.marked())
        if not free:
            return None
        instance = self.chance.choice(free)
        client.enter_standby(AutoScalingGroupName=group, InstanceIds=[instance], ShouldDecrementDesiredCapacity=True)
        self.done["put aside"] += 1

        def back() -> None:
            if instance in self.aws.instances(group):
                client.exit_standby(AutoScalingGroupName=group, InstanceIds=[instance])

        return back

    def _deleted(self, _group: str) -> Callable[[], None] | None:
        """AWS says for a while that it deletes a group, and ends its instances together."""
        if DELETED not in self.aws.names:
            return None
        self.aws.switch(DELETED, status="Delete in progress")
        self.done["deleted"] += 1
        return self.aws.delete
