"""A log that is given as a file: an incident file (Parquet) or a log file (JSON lines), and the settings that fit to it.

Whoever opens somebody else's recording does not know its topics' prefix or how many partitions they have; the file does.
"""

from pathlib import Path

from agents.settings.all_settings import Settings
from streams.errors import BadInput
from streams.incidents.incident_file import SUFFIX, IncidentFile, has_manifest
from streams.log.file_log import FileLog

_EVERYWHERE = ".policies.v1"
"""How the wire name ends of a topic that every log has."""


def is_incident(path: Path) -> bool:
    """Whether a file is to be read as an incident file, by its name."""
    return path.suffix == SUFFIX


def is_log(path: Path) -> bool:
    """Whether a file holds a log, by its name or, of Parquet, by its manifest; else it may be a trace of usage."""
    return path.suffix == ".jsonl" or (is_incident(path) and has_manifest(path))


def reading(settings: Settings, path: Path) -> Settings:
    """The settings with a file's own log, topics and cluster in place of theirs. Raises BadInput for a file that is no log."""
    fitting = fitting_settings(path)
    log = settings.log.model_copy(update={"kind": "file", "path": path})
    topics = settings.topics.model_copy(
        update={name.removeprefix("topics."): value for name, value in fitting.items() if name.startswith("topics.")}
    )
    cluster = settings.cluster.model_copy(update={"name": fitting.get("cluster.name", settings.cluster.name)})
    return settings.model_copy(update={"log": log, "topics": topics, "cluster": cluster})


def fitting_settings(path: Path) -> dict[str, object]:
    """The settings by which the file is read, by dotted name. Raises BadInput for a file that is no log."""
    fitting: dict[str, object] = {"log.kind": "file", "log.path": path}
    if is_incident(path):
        with IncidentFile(path) as incident:
            manifest = incident.manifest
        fitting |= {"topics.prefix": manifest.prefix, "topics.partitions": manifest.partitions}
        # of several clusters none is meant
        return fitting | ({"cluster.name": manifest.clusters[0]} if len(manifest.clusters) == 1 else {})
    with FileLog(path) as log:
        wires = [wire for wire in log.topics() if wire.endswith(_EVERYWHERE)]
        if len(wires) != 1:
            raise BadInput(f"the log file '{path}' has {len(wires)} topics '*{_EVERYWHERE}', so nobody knows its prefix")
        return fitting | {"topics.prefix": wires[0].removesuffix(_EVERYWHERE), "topics.partitions": log.partitions(wires[0])}
