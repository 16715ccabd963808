"""Asks the leaders of Kafka's partitions where these begin and end: about many at once, over an admin client's connections.

`LeaderQuestions` remembers the leaders, asks all together, and leaves out what nobody answers for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.future import Future
from kafka.protocol.consumer.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest

from schemas.units import Seconds
from streams.log.kafka_connection import REQUEST_MS
from streams.log.log_port import LogEnd, TopicAndPartition, unanswered

EARLIEST, LATEST = -2, -1
"""The times that stand for the first kept record of a partition and for its end."""
_CONSUMER = -1
"""Who asks, in requests that a replica may make, too."""
_ANSWER_MS = 2_000  # where others may do without the answer, such as a tick
_NEW_SECONDS, _AGAIN_SECONDS = 5.0, 0.05
"""For how long a partition is asked again that was never asked before, and how often."""
_Topic, _EpochTopic = ListOffsetsRequest.ListOffsetsTopic, OffsetForLeaderEpochRequest.OffsetForLeaderTopic


# Kafka's admin client asks for metadata before each such question, gives up on all partitions when one has no leader, and asks
# one broker after the other.
class LeaderQuestions:
    """Asks the leaders of partitions, over the connections of an admin client."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin
        self._leaders: dict[TopicAndPartition, int] = {}
        self._met: set[TopicAndPartition] = set()
        """Partitions that were asked about before."""

    def ends(self, places: Collection[TopicAndPartition]) -> dict[TopicAndPartition, LogEnd]:
        """Where these partitions end: after the last record that all replicas in sync have, committed or not.

        Leaves out those for which nobody answers. Raises KafkaError if nobody answers for any of them.
        """
        return self._list(places, LATEST, _ANSWER_MS)

    def offsets(self, places: Collection[TopicAndPartition], which: int) -> dict[TopicAndPartition, int]:
        """The first kept offset (`EARLIEST`), the end (`LATEST`), or the first offset from a time on (-1: none), of all these.

        Raises KafkaError if nobody answers for one of them.
        """
        answers = self._list(places, which, REQUEST_MS) if places else {}
        for place in places:
            if place not in answers:
                raise LeaderNotAvailableError(unanswered(place))
        return {place: answer.offset for place, answer in answers.items()}

    def await_leaders(self, places: Collection[TopicAndPartition], seconds: Seconds) -> None:
        """Wait until the leaders of all these answer, for so long at most. Raises KafkaError for one that does not."""
        # A busy broker is named as the leader of a new partition seconds before it acts as one.
        until = monotonic() + seconds
        while True:
            try:
                self.offsets(places, LATEST)
            except (LeaderNotAvailableError, NotLeaderForPartitionError, UnknownTopicOrPartitionError):
                if monotonic() >= until:
                    raise
                sleep(_AGAIN_SECONDS)
            else:
                return

    def _list(self, places: Collection[TopicAndPartition], which: int, answer_ms: int) -> dict[TopicAndPartition, LogEnd]:
        def request(topics: Mapping[str, Iterable[int]]) -> Any:
            parts = {
                name: [_Topic.ListOffsetsPartition(partition_index=p, timestamp=which) for p in ps] for name, ps in topics.items()
            }
            return ListOffsetsRequest(topics=[_Topic(name=name, partitions=ps) for name, ps in parts.items()])

        def read(topic: Any, partition: Any) -> tuple[TopicAndPartition, LogEnd]:
            return (topic.name, partition.partition_index), LogEnd(partition.offset, partition.leader_epoch)

        return self._ask(places, request, read, answer_ms)

    def ends_of_epochs(self, epochs: Mapping[TopicAndPartition, int]) -> dict[TopicAndPartition, LogEnd]:
        """Where the log of each partition left this epoch: the end of the newest epoch that is not above it, and which it is.

        Leaves out those for which nobody answers. Raises KafkaError if nobody answers for any of them.
        """

        def request(topics: Mapping[str, Iterable[int]]) -> Any:
            parts = {
                name: [_EpochTopic.OffsetForLeaderPartition(partition=p, leader_epoch=epochs[name, p]) for p in ps]
                for name, ps in topics.items()
            }
            epoch_topics = [_EpochTopic(topic=name, partitions=ps) for name, ps in parts.items()]
            return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=epoch_topics)

        def read(topic: Any, partition: Any) -> tuple[TopicAndPartition, LogEnd]:
            return (topic.topic, partition.partition), LogEnd(partition.end_offset, partition.leader_epoch)

        return self._ask(epochs, request, read, _ANSWER_MS)

    def _ask(
        self,
        places: Collection[TopicAndPartition],
        request: Callable[[Mapping[str, Iterable[int]]], Any],
        read: Callable[[Any, Any], tuple[TopicAndPartition, LogEnd]],
        answer_ms: int,
    ) -> dict[TopicAndPartition, LogEnd]:
        manager: Any = self._admin._manager  # noqa: SLF001  # the client has no public way to ask a broker something
        answers: dict[TopicAndPartition, LogEnd] = manager.run(self._ask_leaders, manager, places, request, read, answer_ms)
        # A partition that was never asked about may have been made just now, and its leader not know yet.
        until = monotonic() + _NEW_SECONDS
        while (new := set(places) - answers.keys() - self._met) and monotonic() < until:
            sleep(_AGAIN_SECONDS)
            with suppress(KafkaError):
                answers |= manager.run(self._ask_leaders, manager, new, request, read, answer_ms)
        self._met.update(places)
        return answers

    async def _ask_leaders(
        self, manager: Any, places: Any, request: Any, read: Any, answer_ms: int
    ) -> dict[TopicAndPartition, LogEnd]:
        await self._find_leaders(places)
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, partition in places:
            if (topic, partition) in self._leaders:
                leader = by_leader.setdefault(self._leaders[topic, partition], {})
                leader.setdefault(topic, []).append(partition)
        under_way = [(_sent(manager, request(topics), node_id, answer_ms), topics) for node_id, topics in by_leader.items()]
        answers: dict[TopicAndPartition, LogEnd] = {}
        trouble: KafkaError | None = None
        for future, topics in under_way:
            try:
                answer = await future
            except KafkaError as error:
                trouble = error
                self._forget((topic, partition) for topic, partitions in topics.items() for partition in partitions)
                continue
            for topic in answer.topics:
                for partition in topic.partitions:
                    place, end = read(topic, partition)
                    if partition.error_code == 0:
                        answers[place] = end
                        continue
                    trouble = for_code(partition.error_code)(f"{place[0]}:{place[1]}")
                    self._forget([place])
        if trouble is not None:
            manager.cluster.request_update()
        if not answers or isinstance(trouble, TopicAuthorizationFailedError):
            raise trouble or LeaderNotAvailableError("no partition that was asked about has a leader")
        return answers

    async def _find_leaders(self, places: Collection[TopicAndPartition]) -> None:
        """Learn who leads what is new or has lost its leader."""
        topics = {topic for topic, partition in places if (topic, partition) not in self._leaders}
        if not topics:
            return
        admin: Any = self._admin
        for topic in (await admin._get_cluster_metadata(topics))["topics"]:  # noqa: SLF001  # as above
            if for_code(topic["error_code"]) is TopicAuthorizationFailedError:
                raise TopicAuthorizationFailedError([topic["name"]])
            for partition in topic["partitions"]:
                if partition["leader_id"] >= 0:
                    self._leaders[topic["name"], partition["partition_index"]] = partition["leader_id"]

    def _forget(self, places: Iterable[TopicAndPartition]) -> None:
        for place in places:
            self._leaders.pop(place, None)


def _sent(manager: Any, request: Any, node_id: int, answer_ms: int) -> Any:
    """The answer to come."""
    try:
        return manager.send(request, node_id, answer_ms)
    except KafkaError as error:  # a broker that the client has just forgotten fails like one that does not answer
        return Future().failure(error)
