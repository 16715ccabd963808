"""The manifest of an incident file: the places of its records, their number and hashes, and who wrote it.

The manifest is the file's own metadata, as JSON under the key `ullage.incident`. Its hashes find what was damaged or edited on
the way. They are no signature: anybody can make up a file whose hashes fit.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from streams.errors import BadInput
from streams.log import file_format
from streams.log.log_port import Record

KEY = "ullage.incident"
VERSION = 1
_MOST_PARTITIONS = 1000
"""As many as the setting `topics.partitions` takes."""


@dataclass(frozen=True, slots=True)
class PartitionManifest:
    """One partition: its first kept offset and its end when it was copied, how many records are in the file, and their hash.

    `sha256` is over the records as lines of a log file (see `streams.log.file_format`), in the order of their offsets.
    """

    begin: int
    end: int
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class IncidentManifest:
    """The whole file. `topics` are wire names, each with its partitions.

    `events` counts records by `ce_type`; those without one as `tick` or `checkpoint`. `since` and `until` are the stretch in
    RFC 3339, empty where it had no such end. `pseudonyms` is the fingerprint of the key that names were replaced with, empty if
    they are as they were. `at_work`: stages and partitions that workers were working on.
    """

    made_by: str
    prefix: str
    partitions: int
    clusters: tuple[str, ...]
    since: str
    until: str
    pseudonyms: str
    events: Mapping[str, int]
    topics: Mapping[str, tuple[PartitionManifest, ...]]
    at_work: tuple[tuple[str, int], ...] = ()

    @property
    def records(self) -> int:
        """How many records the file holds."""
        return sum(partition.records for partitions in self.topics.values() for partition in partitions)


@dataclass(slots=True)
class PartitionTally:
    """Counts and hashes the records of one partition as they go by."""

    begin: int
    end: int
    records: int = 0
    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, record: Record) -> None:
        """The next record."""
        self.records += 1
        self._hash.update(file_format.encode_record(record))

    def manifest(self) -> PartitionManifest:
        """Their entry in the manifest."""
        return PartitionManifest(self.begin, self.end, self.records, self._hash.hexdigest())


def encode(manifest: IncidentManifest) -> str:
    """As JSON."""
    body = {"version": VERSION, **asdict(manifest)}
    if not manifest.at_work:
        del body["at_work"]  # the form that older programs read
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def decode(data: bytes, path: str) -> IncidentManifest:
    """Inverse of `encode`. Raises BadInput that names the file and what is wrong."""
    try:
        body = orjson.loads(data)
        version = body.pop("version")
        if version != VERSION:
            raise BadInput(f"'{path}' is an incident file of version {version}; this program reads version {VERSION}")
        topics = {str(name): tuple(map(_partition, body["topics"][name])) for name in body["topics"]}
        at_work = tuple((str(stage), int(partition)) for stage, partition in body.get("at_work", ()))
        clusters = _list(body["clusters"])
        manifest = IncidentManifest(**{**body, "topics": topics, "clusters": clusters, "at_work": at_work})
        _require_sense(manifest)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"the manifest of '{path}' cannot be read: {type(error).__name__}: {error}") from error
    return manifest


def _partition(body: Mapping[str, Any]) -> PartitionManifest:
    partition = PartitionManifest(**body)
    numbers = (partition.begin, partition.end, partition.records)
    # by type, for `isinstance` would take True as a number
    if not all(type(number) is int for number in numbers) or not 0 <= partition.begin <= partition.end or partition.records < 0:
        raise ValueError(f"a partition from {partition.begin!r} to {partition.end!r} with {partition.records!r} records")
    return partition


def _list(clusters: object) -> tuple[str, ...]:
    if not isinstance(clusters, list):
        raise TypeError("'clusters' is no list")
    return tuple(clusters)


def _require_sense(manifest: IncidentManifest) -> None:
    """Refuse values that our programs never write. Raises ValueError."""
    texts = (manifest.made_by, manifest.prefix, manifest.since, manifest.until, manifest.pseudonyms, *manifest.clusters)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text of it is no text")
    if type(manifest.partitions) is not int or not 1 <= manifest.partitions <= _MOST_PARTITIONS:
        raise ValueError(f"'partitions' is {manifest.partitions!r}, not 1 to {_MOST_PARTITIONS}")
    if not isinstance(manifest.events, dict) or not all(type(count) is int for count in manifest.events.values()):
        raise ValueError("'events' is no count of events")
