"""Every command that reads works on every kind of log that Kafka can serve, and after the broker was started anew."""

import asyncio
import dataclasses
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from aiokafka.structs import TopicPartition
from cyclopts import App

from agents import cli
from agents.app import log_reader
from agents.cli.program import app
from streams import log_range, reverse_log_reader
from streams.broker import Broker, BrokerSettings, JarsUnavailable
from streams.log.file_log import FileLog
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Record
from streams.topics import TOPICS, Topics
from tests.support import demo_hour_log, kinds_of_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SAME = (
    ("why-not", "shop/orders"),
    ("plan",),
    ("recommendations", "-o", "json"),
    ("timeline", "--workload", "shop/orders"),
    ("history", "shop/orders"),
    ("policy", "list"),
)
"""What these print follows from the records alone, but for their places."""
READING: Sequence[tuple[str, ...]] = (
    *SAME,
    ("status",),
    ("why", "shop/orders"),
    ("tap", "pod-updates"),
    ("tap", "pod-updates", "--last", "5"),
    ("tap", "control", "--from", "30m"),
    ("replay", "--verify"),
    ("export", "FOLDER/stretch.parquet"),
    ("report", "FOLDER/report.html"),
    ("doctor",),
    ("checkpoints", "show"),
    ("checkpoints", "tables"),
    ("checkpoints", "export", "--to", "FOLDER/checkpoints.yaml"),
    ("settings", "plan"),
    ("revert", "--since", "30m"),
    ("topics", "plan"),
)
WITHOUT_LOG = {
    *("backtest", "diff", "simulate", "scan", "config show", "version"),
    *("policy lint", "policy new", "policy test", "topics asyncapi"),
    *("broker", "up", "demo"),  # they start a broker of their own
}
"""Commands that read no log that somebody keeps in Kafka."""
FAULT = re.compile(r"\w+Error\b|Traceback|did not work|nothing came|delivered nothing")
"""What no command says of a log that is merely unusual."""


@dataclasses.dataclass
class Kinds:
    """The logs of each kind, and what commands print of the same records in a file."""

    broker: Broker
    topics: Mapping[str, Topics]
    settings: Path
    in_file: Mapping[tuple[str, ...], str]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    folder = tmp_path_factory.mktemp("day")
    file = demo_hour_log.keep(folder, hours=0.25)
    settings = folder / "kafka.yaml"
    settings.write_text(re.sub(r"(?m)^log:\n(  .*\n)*", "log:\n  kind: kafka\n", (folder / "ullage.yaml").read_text()))
    ours = Topics(partitions=2)
    with FileLog(file) as log:
        records = [
            dataclasses.replace(record, topic=ours.short(record.topic))
            for record in log_range.read_range(log, [ours.wire(topic.name) for topic in TOPICS], merged=True)
        ]
    in_file = {words: printed(words, ["--config", str(folder / "ullage.yaml")], folder)[1] for words in SAME}
    try:
        with Broker(BrokerSettings(heap_mb=384, quick=True)) as broker:
            yield Kinds(broker, kinds_of_log.write_all(broker, records, partitions=2), settings, in_file)
    except JarsUnavailable as error:
        pytest.skip(str(error))


def printed(words: Sequence[str], flags: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """A command's exit code, and what it prints and says."""
    with pytest.MonkeyPatch.context() as patch:
        out, err = folder / "out", folder / "err"
        with out.open("w") as stdout, err.open("w") as stderr:
            patch.setattr("sys.stdout", stdout)
            patch.setattr("sys.stderr", stderr)
            code = cli.run([word.replace("FOLDER", str(folder)) for word in words] + list(flags))
    return code, out.read_text(), err.read_text()


def without_places(text: str) -> list[str]:
    """The lines of a text without the places of records, and without the width that these give to columns.

    Lines of the same time stand in any order, because partitions are read at the same time.
    """
    return sorted(re.sub(r"[ -]+", " ", re.sub(r"[\w-]+\.([a-z-]+\.v1):(\d+):\d+", r"\1:\2", text)).splitlines())


def flags(kinds: Kinds, kind: str) -> list[str]:
    topics = kinds.topics[kind]
    return ["--config", str(kinds.settings), "--brokers", kinds.broker.bootstrap, "--set", f"topics.prefix={topics.prefix}"]


def commands(program: App = app, *words: str) -> Iterator[str]:
    """Each command of `ullage --help`, as `policy set`."""
    inner = [name for name in program if not name.startswith("-")]
    if words and not inner:
        yield " ".join(words)
    for name in inner:
        yield from commands(program[name], *words, name)


@pytest.mark.parametrize("kind", [kind for kind in kinds_of_log.KINDS if kind != "moving"])
def test_every_reading_command_answers(kinds: Kinds, kind: str, tmp_path: Path) -> None:
    faults, whole = {}, kind in kinds_of_log.WHOLE
    for words in READING:
        code, out, err = printed(words, flags(kinds, kind), tmp_path)
        sound = {0} if kind in kinds_of_log.WHOLE and words[0] not in {"doctor", "checkpoints"} else {0, 1, 2, 3, 4}
        fine = code in sound or (words[0] == "replay" and kind not in {"idempotent", "codecs"})  # causes name places
        same = not whole or words not in SAME or without_places(out) == without_places(kinds.in_file[words])
        if not fine or not same or FAULT.search(err) or (words[0] != "tap" and FAULT.search(out)):
            faults[words] = code, same, err or out
    assert faults == {}


def test_every_reading_command_answers_while_retention_takes_what_it_reads(kinds: Kinds, tmp_path: Path) -> None:
    topics, done, taken = kinds.topics["moving"], threading.Event(), itertools.count()

    def take() -> None:
        while not done.wait(0.05):
            kinds_of_log.delete_before(kinds.broker, topics, lambda begin, end: begin + (end - begin + 99) // 100)
            next(taken)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        test_every_reading_command_answers(kinds, "moving", tmp_path)
    finally:
        done.set()
        thread.join()
    assert next(taken) > 10


READ = ("clock", "control", "policies-latest", "pod-changes", "pod-metrics", "recommendations", "outcomes")
Read = Callable[[KafkaLog, tuple[str, int], int, int], Sequence[Record]]
READERS: Mapping[str, Read] = {
    "ranges": lambda log, place, begin, end: list(log.read_ranges({place: (begin, end)})),
    "in order": lambda log, place, begin, end: list(reverse_log_reader.all_between(log, place, begin, end)),
    "backwards": lambda log, place, begin, end: list(reverse_log_reader.backwards(log, {place: (begin, end)}))[::-1],
}


@pytest.mark.parametrize("kind", kinds_of_log.KINDS)
def test_every_reader_finds_the_same_records(kinds: Kinds, kind: str) -> None:
    topics = kinds.topics[kind]
    with KafkaLog(KafkaConnection(kinds.broker.bootstrap)) as log:
        for place in [(topics.wire(name), p) for name in READ for p in range(topics.count(name))]:
            begin, end = log.begin(*place), log.end(*place)
            found = {name: [r.offset for r in read(log, place, begin, end)] for name, read in READERS.items()}
            whole = [record for record in log_range.read_range(log, [place[0]]) if record.partition == place[1]]
            assert set(map(tuple, found.values())) == {tuple(r.offset for r in whole)}, place
            assert asyncio.run(beside_faust(kinds.broker.bootstrap, place)) == {r.key or b"": r.value for r in whole}, place


async def beside_faust(address: str, place: tuple[str, int]) -> dict[bytes, bytes | None]:
    """The last record of each key, as a worker reads its changelogs."""
    where = KafkaConnection(address)
    async with log_reader.reader(where) as consumer:
        consumer.assign([TopicPartition(*place)])
        ends = await log_reader.ends(consumer, [place])
    last = (await log_reader.contents(where, ends))[place].last
    return {key or b"": value for key, value in last.items()}
