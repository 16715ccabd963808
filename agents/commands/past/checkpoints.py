"""Runs `ullage checkpoints`: shows the tables of workers and the usage history of VPAs, or exports the latter in upstream's form.

The tables are Faust's, and their changelogs hold checkpoints; this reads the newest good one of each partition, from which a
worker would go on, and replays nothing. Entries that are kept as JSON are shown; matrices by their size alone.

The export goes to a file, or to the cluster that the settings name as VerticalPodAutoscalerCheckpoint objects.
"""

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import orjson
import yaml
from msgspec import MsgspecError

from agents.engine.checkpoint_selection import StoredState
from agents.logic.vertical import aggregated_usage
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import NAME, VerticalSettings
from agents.processes.signals import stoppable
from agents.run.newest_checkpoint import newest_checkpoint
from agents.run.pipeline import stages
from agents.settings import cluster_factory, log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import note, sentence
from agents.terminal.output_table import OutputForm, Row
from schemas import times
from schemas.facts.usage import CheckpointSeen
from schemas.names import Workload
from streams.clients.kube.api import Api
from streams.clients.kube.vpa_objects import checkpoint_list, object_name, write
from streams.consumers.executing.acting_consumer import RateLimit
from streams.errors import BadInput, EdgeError, Unreachable
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import changelog_topic


def show(settings: Settings, vpa: str, form: OutputForm = "table") -> None:
    """Print a line for each container of a VPA."""
    if form not in output_table.PEOPLE:
        output_table.print_rows(form, [_row(kept) for kept in _matching(settings, vpa)])
        return
    for kept in _matching(settings, vpa):
        span = f"{_minute(kept.first)} to {_minute(kept.last)}" if kept.count else "no CPU sample"
        weights = f"weight cpu {kept.cpu.total:.4g} memory {kept.memory.total:.4g}"
        sentence(f"{kept.workload.namespace}/{kept.vpa}  {kept.container}  {kept.count} samples  {span}  {weights}")


def _row(kept: CheckpointSeen) -> Row:
    return {
        "namespace": kept.workload.namespace,
        "vpa": kept.vpa,
        "container": kept.container,
        "samples": kept.count,
        "first": _minute(kept.first) if kept.count else None,
        "last": _minute(kept.last) if kept.count else None,
        "cpu_weight": kept.cpu.total,
        "memory_weight": kept.memory.total,
    }


def export(settings: Settings, to: Path | None, vpa: str) -> int:
    """Write the checkpoints to a file or to the cluster; returns 1 when the cluster refused some, else 0."""
    checkpoints = list(_matching(settings, vpa))
    if to is not None:
        _write(to, checkpoints)
        note(f"{len(checkpoints)} checkpoints written to {to}")
        return 0
    api = Api(cluster_factory.connection(settings.cluster))
    pace = RateLimit(settings.status.rate, settings.status.burst)
    refused = sum(not _put(api, pace, checkpoint) for checkpoint in checkpoints)
    note(f"{len(checkpoints) - refused} of {len(checkpoints)} checkpoints are in cluster '{settings.cluster.name}'")
    return int(refused > 0)


def _matching(settings: Settings, vpa: str) -> Iterator[CheckpointSeen]:
    """The checkpoints of this cluster's VPAs that match the pattern.

    Raises BadInput that lists the existing VPAs if there is none.
    """
    others: set[str] = set()
    matched = False
    with stoppable(), log_factory.log_to_read(settings) as (log, fitted):
        for kept in checkpoints(log, fitted):
            name = f"{kept.workload.namespace}/{kept.vpa}"
            if kept.workload.cluster == settings.cluster.name and fnmatchcase(name, vpa):
                matched = True
                yield kept
            else:
                others.add(name if kept.workload.cluster == settings.cluster.name else f"{name} of '{kept.workload.cluster}'")
    # five are enough to see how names are spelt
    if not matched:
        names = f"; there are, among {len(others)}: {', '.join(sorted(others)[:5])}" if others else ""
        raise BadInput(f"no worker remembers a VPA of cluster '{settings.cluster.name}' that matches --vpa '{vpa}'{names}")


def _put(api: Api, pace: RateLimit, kept: CheckpointSeen) -> bool:
    """Whether the cluster accepted it. Raises Unreachable."""
    try:
        pace.wait()
        write(api, kept)
    # a cluster that is away would refuse all others, too, each after its patience
    except Unreachable:
        raise
    except EdgeError as error:
        note(f"{kept.workload.namespace}/{object_name(kept)}: {error}")
        return False
    return True


def _write(to: Path, kept: list[CheckpointSeen]) -> None:
    body = checkpoint_list(kept)
    text = json.dumps(body, indent=2) + "\n" if to.suffix == ".json" else yaml.safe_dump(body, sort_keys=False)
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{to}' cannot be written: {error.strerror}") from error


def _minute(seconds: float) -> str:
    return f"{times.from_seconds(seconds):%Y-%m-%d %H:%M}"


def checkpoints(log: Log, settings: Settings) -> Iterator[CheckpointSeen]:
    """The checkpoints of all VPAs of all clusters, partition by partition, from the newest good state in the changelog.

    Replays nothing. Raises BadInput when there is no state at all, and for a state that this program would write in another form,
    because the export must equal what a worker would go on with.
    """
    topic = changelog_topic(settings.worker.name, NAME)
    if not has_topic(log, topic):
        raise BadInput(
            f"there is no topic '{topic}' in this log: only a worker keeps checkpoints, and a simulated log has none; "
            f"if the worker has another name, say it with --set worker.name=NAME (now '{settings.worker.name}')"
        )
    context = LogContext.of(log, log_factory.topics(settings))
    [stage] = [stage for stage in stages(settings) if stage.name == NAME]
    some = False
    for partition in range(log.partitions(topic)):
        reading = newest_checkpoint(context, stage, partition, settings.worker.name)
        if reading.found is not None:
            some = True
            yield from _exported(restored(settings.vertical, partition, reading.found), reading.found.mark.turn)
        elif reading.broken:
            raise BadInput(f"partition {partition} of '{topic}' has {reading.broken} checkpoints, and none of them is whole")
    if not some:
        raise BadInput(f"there is no checkpoint in '{topic}' yet: has a worker named '{settings.worker.name}' run?")


def restored(settings: VerticalSettings, partition: int, checkpoint: StoredState) -> Recommender:
    """The recommender that wrote this checkpoint. Raises BadInput for one of another form."""
    state = Recommender(settings, partition)
    for name, dump in sorted(checkpoint.chunks.items()):
        try:
            state.load(name, dump)
            # what a worker would go on with must come back byte for byte, or the export says something else than it
            same = state.dump(name) == dump
        except (KeyError, ValueError, IndexError, TypeError, struct.error, MsgspecError) as error:
            raise _unreadable(partition, checkpoint, name, f"{type(error).__name__}: {error}") from error
        if not same:
            raise _unreadable(partition, checkpoint, name, "what was read of it is not all there is")
    return state


def _exported(state: Recommender, turn: int) -> Iterator[CheckpointSeen]:
    """By VPA and container."""
    # each recommender knows all VPAs, but only the usage of its own partition's workloads
    members = ContainerIndex(state.usage, state.announced.table, state.policies, state.settings)
    members.add(state.usage.aggregates.keys())
    at = times.from_ms(turn)
    targets = {vpa.policy.target for vpa in state.policies.vpas.values()} - {""}
    for target in sorted(targets):
        yield from aggregated_usage.export(state.intake, members, Workload.parse(target), at)


def _unreadable(partition: int, checkpoint: StoredState, chunk: str, why: str) -> BadInput:
    place = f"partition {partition} of stage '{NAME}' at turn {checkpoint.mark.turn}"
    return BadInput(
        f"the state of {place} is of another form than this program's, at '{chunk}' ({why}): use the version that wrote it"
    )


def show_tables(settings: Settings, form: OutputForm, *, partition: int | None, table: str, key: str) -> None:
    """Print a line for each table, of one partition if it is said; or, with `table`, its entries whose key contains `key`.

    Raises BadInput for a choice that leaves nothing.
    """
    rows, tables = list[Row](), set[str]()
    for stage, number, state in _states(settings, partition):
        # the first word of a chunk's name is its table's
        by_table: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        for name, chunk in sorted(state.chunks.items()):
            by_table[name.partition("/")[0]][name] = chunk
        tables.update(by_table)
        if table:
            rows.extend(_entries(stage, number, by_table.get(table, {}), key))
        else:
            rows.extend(_table(stage, number, state.mark.turn, name, chunks) for name, chunks in sorted(by_table.items()))
    if table and table not in tables:
        raise BadInput(f"no checkpoint has a table '{table}'; there are {', '.join(sorted(tables))}")
    output_table.print_rows(form, rows, spare=("chunks",))


def _states(settings: Settings, only: int | None) -> Iterator[tuple[str, int, StoredState]]:
    """The newest states, by stage and partition. Raises BadInput where there is none."""
    some = False
    with log_factory.context_to_read(settings) as (context, fitted):
        log = context.log
        for stage in stages(fitted):
            topic = changelog_topic(fitted.worker.name, stage.name)
            for partition in range(log.partitions(topic) if has_topic(log, topic) else 0):
                if only in (None, partition):
                    state = newest_checkpoint(context, stage, partition, fitted.worker.name).found
                    if state is not None:
                        some = True
                        yield stage.name, partition, state
    if not some:
        raise BadInput(f"there is no such checkpoint in this log: has a worker named '{settings.worker.name}' run?")


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
