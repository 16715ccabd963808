"""Agents of your own on Ullage's topics: plain Faust, with events instead of bytes.

    app = your_agents.app("my-tickets")

    @app.agent(app.events("pod-updates", UpdateRefused))
    async def tickets(refusals: Events[UpdateRefused]) -> None: ...

An agent of yours only reads. It has a consumer group of its own, named like the app, and takes no part in any decision: it may
be slow, crash or start anew, and nobody waits for it. Three rules hold for what it gets. It never sees a tick, a record that it
could not read, or an event of another type. Of a topic that has a copy in every partition (`control`, `policies`, `rules`,
`cluster-changes`) it sees one copy. And it may see an event again after a restart or a rebalance, with the same `id` where the
event has one. An agent that raises goes on with the next event, and gets the one at which it raised again after a restart:
`until_done` tries again at once what may fail.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import faust
import structlog
from faust.app import BootStrategy
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

P = ParamSpec("P")
T = TypeVar("T")

Events = StreamT
"""What an agent gets: `async for` gives the events, `Events[UpdateRefused]` those of one type."""

_SETTINGS: dict[str, Any] = {
    "store": "memory://",
    "topic_allow_declare": False,
    "topic_disable_leader": True,
    "consumer_max_fetch_size": 4 << 20,
    "broker_commit_interval": 1.0,
    "stream_wait_empty": False,  # otherwise a stop would wait for an agent that tries again until it is done
}


_LOG = structlog.get_logger("ullage", component="agent")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds


async def until_done(act: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    """What `act` gives, tried again after each exception, for as long as it takes; the agent's later events wait meanwhile.

    If the process ends in between, the event comes again.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return await act(*args, **options)
        except Exception as error:  # noqa: BLE001  # whatever it is that fails, the event is not done
            _LOG.warning("trying again", error=repr(error), seconds=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


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
    """A stream that passes events alone, each of which is done when its agent asks for the next."""

    def __init__(self, channel: Any, **options: Any) -> None:
        """As Faust's own."""
        super().__init__(channel, **options)
        # Faust itself would take an event for done at which the agent raises, or is stopped.
        self.enable_acks = False
        self.add_processor(_only_events)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The events."""
        async for event in super().__aiter__():
            given = self.current_event
            yield event
            if given is not None:
                given.ack()


async def _only_events(event: Event | None) -> Event:
    if event is None:
        # Faust's own way to pass over an event; a processor that returned None would hand None to the agent.
        raise faust.exceptions.Skip
    return event


class NoWebServer(BootStrategy):
    """Faust's `worker` would listen on every address of the machine, whatever the settings say."""

    enable_web = False


class EventApp(faust.App):
    """Faust's app with the topics of one log. `app.main()` runs it: `python FILE worker`."""

    BootStrategy = NoWebServer
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
