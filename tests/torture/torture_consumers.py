"""One instance of the consumers of some clusters, a process under torture; each end of it goes into their histories."""

import signal
import time
from collections import Counter
from pathlib import Path

from schemas.outcomes import Action
from streams.topics import Topics
from tests.torture.forked_processes import ForkedProcess
from tests.torture.processes import Process
from tests.torture.torture_cluster import TortureCluster


class TortureConsumers:
    """At work between `start` and `kill`. `die` is the chance that they die after an act, before its outcome is written.

    All instances of one cluster write one `log`.
    """

    def __init__(
        self, clusters: list[TortureCluster], brokers: str, topics: Topics, *, instance: int, die: float, log: Path
    ) -> None:
        self.clusters, self.instance = clusters, instance
        told = {
            "brokers": brokers, "prefix": topics.prefix, "partitions": topics.partitions, "die": die,
            "clusters": [cluster.told(instance) for cluster in clusters],
        }  # fmt: skip
        self.process = Process("tests.torture.faulty_consumer", told, log, ForkedProcess)

    def start(self) -> None:
        self.process.start()

    def freeze(self) -> None:
        self.process.send(signal.SIGSTOP)

    def thaw(self) -> None:
        for cluster in self.clusters:
            cluster.history.wakes.append(time.time())
        self.process.send(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        for cluster in self.clusters:
            cluster.history.kills.append(time.time())
        self._ended()

    def revive(self) -> int | None:
        """Start them again if they ended by themselves; how they ended."""
        code = self.process.revive()
        if code is not None:
            self._ended()
        return code

    def be_sound(self) -> None:
        """From the next start on they do not die by themselves."""
        self.process.told["die"] = 0.0

    def _ended(self) -> None:
        """Remember when, and after which acts they died by themselves until now."""
        deaths: Counter[tuple[Action, str]] = Counter()
        for line in self.process.lines("died between act and outcome"):
            action, uid = line.split()[-2:]
            deaths[Action(action), uid] += 1
        for cluster in self.clusters:
            cluster.history.ends.append(time.time())
            cluster.history.deaths = deaths
