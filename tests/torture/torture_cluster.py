"""A simulated cluster that lives through the torture, and counts what was done to it.

It stands in the driver's process behind HTTP, follows the log's ticks and tells its facts; the consumers are processes that get
killed, also between an act and its outcome. At the end: nothing was done that nobody decided, and nothing more often than
it was decided.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts, PodName
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Fraction
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import DEPLOYMENTS, NODES
from streams.simulated.simulated_client import SimulatedClient
from streams.simulated.simulation_loop import SimulationLoop
from streams.sources.cluster_poller import ClusterPoller
from streams.topics import Topics
from tests.torture import kafka_topics

NAME = "west"
"""Alone in its partition, with two partitions and with four."""
Act = tuple[str, str, str]
"""Verb, pod uid, and what was asked for."""


class Counting(SimulatedCluster):
    """Counts what it accepted."""

    def __init__(self, seed: int, start: datetime) -> None:
        super().__init__(name=NAME, seed=seed, start=start, nodes=NODES, deployments=DEPLOYMENTS)
        self.acts: Counter[Act] = Counter()

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        super().resize(name, requests=requests, limits=limits)
        self.acts["resize", name.uid, asked(requests)] += 1

    def evict(self, name: PodName) -> None:
        super().evict(name)
        self.acts["evict", name.uid, ""] += 1


def asked(requests: Mapping[str, Amounts]) -> str:
    """As whole millicores and bytes: what survives Kubernetes' notation."""
    return str({name: (a.cpu and round(a.cpu * 1000), a.memory and round(a.memory)) for name, a in sorted(requests.items())})


class TortureCluster:
    """The cluster at work, between `open` and `close`."""

    def __init__(self, brokers: str, topics: Topics, seed: int, start_ms: int) -> None:
        self.brokers, self.topics, self.codec = brokers, topics, Codec(topics)
        self.start = datetime.fromtimestamp(start_ms / 1000, UTC)
        self.cluster = Counting(seed, self.start)
        self.log = KafkaLog(KafkaConnection(brokers))
        self.server = SimulatedServer(self.cluster)
        self.stop = threading.Event()
        source = ClusterPoller(SimulatedClient(self.cluster), LogContext(self.log, topics, self.codec, self.cluster.name))
        self.world = SimulationLoop(self.cluster, self.log, topics, source.scrape)
        self.thread = threading.Thread(target=self.world.run, args=(self.stop,), daemon=True)

    def open(self) -> str:
        """Allow changes, and live; the address."""
        policy = VerticalPolicyChanged(self.start, f"{NAME}/*", "v1", UpdateMode.IN_PLACE_OR_RECREATE)
        control = ControlChanged(self.start, NAME, Mode.APPLY, budget=Fraction(0.5))
        for topic, event, key in (("policies", policy, f"{NAME}/*"), ("control", control, NAME)):
            places = range(self.topics.partitions)
            self.log.append(
                [self.codec.encode(event, topic=topic, key=key, partition=p, source="/ullage/source/t") for p in places]
            )
        self.server.__enter__()
        self.thread.start()
        return self.server.url

    def close(self) -> None:
        self.stop.set()
        self.thread.join(10)
        self.server.__exit__(None, None, None)
        self.log.close()

    async def judge(self) -> tuple[dict[str, int], list[str]]:
        """Figures, and what is wrong."""
        partition = self.topics.partition_of(NAME)
        decided = await self._events("pod-updates", partition)
        plans = {e.id: e for e in decided if isinstance(e, ResizePlanned | EvictionPlanned) and e.workload.cluster == NAME}
        outcomes = [e for e in await self._events("outcomes", partition) if isinstance(e, ActionFinished)]
        wanted: Counter[Act] = Counter()
        for plan in plans.values():
            resize = isinstance(plan, ResizePlanned)
            wanted["resize" if resize else "evict", plan.pod.uid, asked(plan.requests) if resize else ""] += 1
        finished = Counter(o.decision for o in outcomes)
        acts = self.cluster.acts
        wrong = [f"{act} was done {n} times but decided {wanted[act]} times" for act, n in acts.items() if n > wanted[act]]
        wrong += [f"decision {i} has {n} outcomes" for i, n in finished.items() if n > 1]
        wrong += [f"outcome of unknown decision {i}" for i in finished if i not in plans]
        wrong += [f"decision {i} has no outcome" for i in plans if i not in finished]
        return {"plans": len(plans), "outcomes": len(outcomes), "acts": sum(acts.values())}, wrong

    async def _events(self, name: str, partition: int) -> list[object]:
        events = []
        for record in (await kafka_topics.whole(self.brokers, self.topics.wire(name), self.topics.partitions))[partition]:
            try:
                events.append(self.codec.decode(record))
            except BadRecord:
                continue  # ticks
        return events
