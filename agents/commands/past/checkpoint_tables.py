"""Runs `ullage checkpoints tables`: what the tables of workers hold, by stage, partition and table.

The tables are Faust's, and their changelogs hold checkpoints; this reads the newest good one of each partition, from which a
worker would go on, and replays nothing. Entries that are kept as JSON are shown; matrices by their size alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from agents.engine.checkpoint_selection import StoredState
from agents.run.newest_checkpoint import newest_checkpoint
from agents.run.pipeline import stages
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output_table import OutputForm, Row
from schemas import times
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import changelog_topic


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Which tables: of this partition, if it is said; with `table`, its entries whose key contains `key`."""

    partition: int | None = None
    table: str = ""
    key: str = ""


def show(settings: Settings, choice: TableChoice, form: OutputForm = "table") -> None:
    """Print a line for each table, or for each entry of one table. Raises BadInput for a choice that leaves nothing."""
    rows, tables = list[Row](), set[str]()
    for stage, partition, state in _states(settings, choice):
        by_table = _chunks(state)
        tables.update(by_table)
        if choice.table:
            rows.extend(_entries(stage, partition, by_table.get(choice.table, {}), choice.key))
        else:
            rows.extend(_table(stage, partition, state.mark.turn, name, chunks) for name, chunks in sorted(by_table.items()))
    if choice.table and choice.table not in tables:
        raise BadInput(f"no checkpoint has a table '{choice.table}'; there are {', '.join(sorted(tables))}")
    output_table.print_rows(form, rows)


def _states(settings: Settings, choice: TableChoice) -> Iterator[tuple[str, int, StoredState]]:
    """The newest states, by stage and partition. Raises BadInput where there is none."""
    some = False
    with log_factory.log_to_read(settings) as (log, fitted):
        context = LogContext.of(log, log_factory.topics(fitted))
        for stage in stages(fitted):
            topic = changelog_topic(fitted.worker.name, stage.name)
            for partition in range(log.partitions(topic) if has_topic(log, topic) else 0):
                if choice.partition in (None, partition):
                    state = newest_checkpoint(context, stage, partition, fitted.worker.name).found
                    if state is not None:
                        some = True
                        yield stage.name, partition, state
    if not some:
        raise BadInput(f"there is no such checkpoint in this log: has a worker named '{settings.worker.name}' run?")


def _chunks(state: StoredState) -> Mapping[str, Mapping[str, bytes]]:
    """The chunks of each table; the first word of a chunk's name is its table's."""
    by_table: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    for name, chunk in sorted(state.chunks.items()):
        by_table[name.partition("/")[0]][name] = chunk
    return by_table


def _table(stage: str, partition: int, turn: int, name: str, chunks: Mapping[str, bytes]) -> Row:
    entries = [_as_entries(chunk) for chunk in chunks.values()]
    count = sum(map(len, filter(None, entries)))
    return {
        "stage": stage,
        "partition": partition,
        "as_of": f"{times.from_ms(turn):%Y-%m-%d %H:%M:%S}",
        "table": name,
        "chunks": len(chunks),
        "bytes": sum(map(len, chunks.values())),
        "entries": None if None in entries else count,
    }


def _entries(stage: str, partition: int, chunks: Mapping[str, bytes], key: str) -> Iterator[Row]:
    """The entries of a table; of a chunk of numbers its size."""
    for name, chunk in chunks.items():
        entries = _as_entries(chunk)
        if entries is None:
            entries = {name: f"{len(chunk)} bytes of numbers"}
        for entry, value in sorted(entries.items()):
            if key in entry:
                text = value if isinstance(value, str) else orjson.dumps(value).decode()
                yield {"stage": stage, "partition": partition, "name": entry, "value": text}


def _as_entries(chunk: bytes) -> Mapping[str, object] | None:
    """The entries of a chunk; None for one that is no JSON object."""
    try:
        entries = orjson.loads(chunk)
    except orjson.JSONDecodeError:
        return None
    return entries if isinstance(entries, dict) else None
