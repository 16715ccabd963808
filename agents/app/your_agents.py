"""Agents of your own on Ullage's topics: plain Faust, with events instead of bytes.

    app = your_agents.app("my-tickets")

    @app.agent(app.events("pod-updates", UpdateRefused))
    async def tickets(refusals: Events[UpdateRefused]) -> None: ...

An agent of yours only reads. It has a consumer group of its own, named like the app, and takes no part in any decision: it may
be slow, crash or start anew, and nobody waits for it. Three rules hold for what it gets. It never sees a tick, a record that it
could not read, or an event of another type. Of a topic that has a copy in every partition (`control`, `policies`, `rules`,
`cluster-changes`) it sees one copy. And it may see an event again after a restart or a rebalance, with the same `id` where the
event has one.
"""

from typing import Any

import faust
from faust.types import StreamT
from faust.types.tuples import Message

from agents.app import kafka_client_options
from agents.settings import loading, log_factory
from agents.settings.all_settings import Settings
from schemas.catalogue import Event
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.log.log_port import Record
from streams.topics import KeySpace, Topics

Events = StreamT
"""What an agent gets: `async for` gives the events, `Events[UpdateRefused]` those of one type."""

_SETTINGS: dict[str, Any] = {
    "store": "memory://",
    "web_enabled": False,
    "topic_allow_declare": False,
    "topic_disable_leader": True,
    "consumer_max_fetch_size": 4 << 20,
    "broker_commit_interval": 1.0,
}


class EventSchema(faust.Schema[Any, Any]):
    """Reads the records of one topic as events; None where there is none for the reader."""

    def __init__(self, topics: Topics, name: str, kind: type[Event]) -> None:
        """`name`: the topic's short name. `kind`: the events that the reader wants."""
        super().__init__()
        self._kind = kind
        self._codec = Codec(topics)
        self._copied = topics.topic(topics.wire(name)).keyed is KeySpace.BROADCAST

    def loads_key(self, _app: faust.App, message: Message, **_: Any) -> bytes | None:  # type: ignore[override]
        """The key as it stands in the log: a workload, a cluster or an object."""
        return message.key

    def loads_value(self, _app: faust.App, message: Message, **_: Any) -> Event | None:  # type: ignore[override]
        """The event; None for ticks, other events, what cannot be read, and further copies of a broadcast."""
        # A broadcast has a copy in each partition, and the first one is enough.
        if self._copied and message.partition:
            return None
        record = Record(
            message.topic,
            message.partition,
            message.offset,
            message.key,
            message.value,
            tuple(dict(message.headers or ()).items()),
        )
        event = self._codec.decode_or_none(record)
        return event if isinstance(event, self._kind) else None


class EventStream(faust.Stream[Event]):
    """A stream that passes events alone."""

    def __init__(self, channel: Any, **options: Any) -> None:
        """As Faust's own."""
        super().__init__(channel, **options)
        self.add_processor(_only_events)


async def _only_events(event: Event | None) -> Event:
    if event is None:
        # Faust's own way to pass over an event; a processor that returned None would hand None to the agent.
        raise faust.exceptions.Skip
    return event


class EventApp(faust.App):
    """Faust's app with the topics of one log. `app.main()` runs it: `python FILE worker`."""

    log_topics: Topics

    def events(self, name: str, kind: type[Event]) -> Any:
        """The events of one type in the topic with this short name, for `@app.agent`. Raises BadInput for an unknown topic."""
        topics = self.log_topics
        return self.topic(topics.wire(name), schema=EventSchema(topics, name, kind), partitions=topics.partitions)

    def _create_directories(self) -> None:
        """Nothing is stored in files."""


def app(name: str, *, settings: Settings | None = None, since: str = "latest") -> EventApp:
    """An app whose consumer group is `name`, on the log of the settings: ullage.yaml and the environment when none are given.

    `since` is where a group that is new begins: `latest`, or `earliest` for all that the log holds. Raises BadInput for a log
    that is not Kafka.
    """
    chosen = loading.load().settings if settings is None else settings
    if chosen.log.kind != "kafka":
        raise BadInput(f"log.kind is '{chosen.log.kind}', but agents of your own follow a log of kind 'kafka'")
    where = log_factory.connection(chosen)
    made = EventApp(
        name,
        broker=kafka_client_options.urls(where),
        broker_credentials=kafka_client_options.credentials(where),
        topic_partitions=chosen.topics.partitions,
        consumer_auto_offset_reset=since,
        Stream=EventStream,
        **_SETTINGS,
    )
    made.log_topics = log_factory.topics(chosen)
    return made
