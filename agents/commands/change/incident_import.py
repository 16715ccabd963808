"""Runs `ullage import`: checks an incident file against its manifest, and puts it into a log file or an empty Kafka."""

from collections.abc import Callable
from pathlib import Path

from agents.processes.signals import stoppable
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note, sentence
from streams.errors import BadInput
from streams.incidents import incident_copy
from streams.incidents.incident_file import IncidentFile
from streams.log.file_log import FileLog
from streams.log_context import LogContext

_DAMAGED = 2


def run(settings: Callable[[], Settings], file: Path, *, to: Path | None, salvage: bool, check: bool) -> int:
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
