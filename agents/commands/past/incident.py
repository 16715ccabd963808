"""Runs `ullage export`, `record` and `import`: a stretch of the log as one incident file, and such a file put into a log."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from math import inf
from pathlib import Path
from time import monotonic

from agents.processes.signals import pause, stoppable, until_stopped
from agents.run.pipeline import stages
from agents.settings import event_times, log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import ProgressLine, note, sentence, visible_line
from agents.verify import committed_turns
from agents.verify.committed_turns import copied_topics
from streams.errors import BadInput
from streams.incidents import incident_copy, pseudonyms
from streams.incidents.incident_copy import Stretch
from streams.incidents.incident_file import SUFFIX, IncidentFile
from streams.incidents.incident_manifest import IncidentManifest
from streams.incidents.pseudonyms import Pseudonyms
from streams.log.file_log import FileLog
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing.operator_log import OperatorLog
from streams.topics import TOPICS


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """What to take. `topics` are short names, all when empty; `key_file` holds the key for pseudonyms."""

    begin: str | None = None
    end: str | None = None
    topics: tuple[str, ...] = ()
    key_file: Path | None = None


def export(settings: Settings, file: Path, flags: ExportFlags) -> None:
    """Write the present content of the log."""
    _require_name(file)
    with stoppable(), log_factory.context_to_read(settings) as (context, fitted):
        tick = OperatorLog(context).newest_tick()
        if tick is None and (flags.begin is not None or flags.end is not None):
            flag = f"--to '{flags.end}'" if flags.begin is None else f"--from '{flags.begin}'"
            raise BadInput(f"{flag} means nothing in a log without a tick; leave it out")
        since, until = (None, None) if tick is None else event_times.stretch(flags.begin, flags.end, tick.at)
        whole = since is None and until is None
        wires = _wires(context, fitted, flags, whole=whole)
        # a worker may publish while it is copied: verify must not take its newest turns for missing ones
        at_work = committed_turns.at_work(context, settings.worker.name, stages(fitted)) if whole else ()
        _written(context, file, Stretch(wires, since, until), flags, settings=fitted, at_work=sorted(at_work))


_LONGEST_WAIT = 0.5
"""Seconds. A signal that comes just before a wait begins, or that another thread gets, does not end it."""


def record(settings: Settings, file: Path, length: str | None, flags: ExportFlags) -> None:
    """Wait, then write what was appended meanwhile."""
    _require_name(file)
    seconds = None if length is None else event_times.duration(length, "--for").total_seconds()
    with log_factory.context_to_read(settings) as (context, fitted):
        wires, log = _wires(context, fitted, flags, whole=False), context.log
        # by offset and not by time: event time may go faster or slower than this machine's
        begun = {(wire, p): log.end(wire, p) for wire in wires for p in range(log.partitions(wire))}
        note("recording" + (" until Ctrl-C" if seconds is None else f" for {length}"))
        until = inf if seconds is None else monotonic() + seconds
        with until_stopped():
            while (left := until - monotonic()) > 0:
                pause(min(left, _LONGEST_WAIT))
        _written(context, file, Stretch(wires, begun), flags, settings=fitted)


def _require_name(file: Path) -> None:
    if file.suffix != SUFFIX:
        raise BadInput(f"'{file}' is no name for an incident file: it must end in {SUFFIX}")


def _wires(context: LogContext, settings: Settings, flags: ExportFlags, *, whole: bool) -> list[str]:
    """The topics that the log has of those wanted."""
    names = [topic.name for topic in TOPICS]
    for name in flags.topics:
        if name not in names:
            raise BadInput(f"--topic '{name}' is none; there are: {', '.join(names)}")
    # with the checkpoints, from which `replay --verify` starts; their names are inside of bytes, and no pseudonym reaches them
    if whole and not flags.topics and flags.key_file is None:
        return copied_topics(context, stages(settings), settings.worker.name)
    wires = [context.topics.wire(name) for name in flags.topics or names]
    return [wire for wire in wires if has_topic(context.log, wire)]


def _written(  # noqa: PLR0913  # wired in one place
    context: LogContext,
    file: Path,
    stretch: Stretch,
    flags: ExportFlags,
    *,
    settings: Settings,
    at_work: Sequence[tuple[str, int]] = (),
) -> None:
    names = None
    if flags.key_file is not None:
        names = Pseudonyms(pseudonyms.key_of(flags.key_file), settings.topics.prefix, settings.topics.partitions)
    line = ProgressLine(0, "records")

    # how many there are is known with the first call
    def progress(count: int, of: int) -> None:
        if not line.of:
            note(f"reading {of:,} records of {len(stretch.topics)} topics")
        line.of = of
        line.show(count)

    try:
        made_by = f"ullage {metadata.version('ullage')}"
        manifest = incident_copy.to_file(context, file, stretch, made_by, names, at_work=at_work, progress=progress)
    finally:
        line.end()
    note(_sentence(manifest, file))


def _sentence(manifest: IncidentManifest, file: Path) -> str:
    if not manifest.records:
        return visible_line(f"no record is of that stretch: {file} holds none")
    size = 0
    # the size is only told: a file that has been moved away is no fault of the export
    with suppress(OSError):
        size = file.stat().st_size
    named = f"; names replaced by key {manifest.pseudonyms}" if manifest.pseudonyms else ""
    about = f"of {', '.join(manifest.clusters)}" if manifest.clusters else "without a fact or decision of any cluster"
    return visible_line(f"{manifest.records:,} records {about}, ticks of the clock included, in {file} ({size:,} bytes){named}")


_DAMAGED = 2


def import_file(settings: Callable[[], Settings], file: Path, *, to: Path | None, salvage: bool, check: bool) -> int:
    """Check, and import unless only `check` is wanted; the exit code. `settings` are read only for a log of the settings."""
    # settings are asked for only where the log of the settings is: a check must not fail for a broken ullage.yaml
    with stoppable(), IncidentFile(file) as incident:
        if check:
            return _checked(incident)
        for sentence in incident_copy.checked(incident, salvage=salvage):
            note(sentence)
        if to is not None:
            count = _into_file(incident, to, salvage=salvage)
            note(f"{count:,} records in {to}; read it with `--log {to}`")
        else:
            count = _into_log(incident, settings(), salvage=salvage)
            note(f"{count:,} records appended")
    return 0


def _checked(incident: IncidentFile) -> int:
    manifest = incident.manifest
    stretch = f"{manifest.since or 'the beginning'} to {manifest.until or 'the end'}"
    sentence(f"{manifest.records:,} records, {stretch}, written by {manifest.made_by}")
    sentence(f"topics begin with '{manifest.prefix}' and have {manifest.partitions} partitions")
    for kind, count in manifest.events.items():
        sentence(f"  {count:>9,}  {kind}")
    faults = incident.check().sentences()
    for fault in faults:
        sentence(fault)
    sentence("every record is as the manifest says" if not faults else "the file is damaged")
    return _DAMAGED if faults else 0


def _into_file(incident: IncidentFile, to: Path, *, salvage: bool) -> int:
    if to.exists():
        raise BadInput(f"'{to}' is there already; an incident goes into a log file of its own")
    with FileLog.open_or_create(to) as log:
        return incident_copy.to_places(incident, log, salvage=salvage)


def _into_log(incident: IncidentFile, settings: Settings, *, salvage: bool) -> int:
    if settings.log.kind == "file":
        return _into_file(incident, settings.log.path, salvage=salvage)
    with log_factory.log_to_write(settings) as log:
        return incident_copy.to_log(incident, LogContext.of(log, log_factory.topics(settings)), salvage=salvage)
