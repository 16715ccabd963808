"""Replaces the names in records, so that an incident can be shown to people who must not know its owner.

Everything is replaced except what is known to be harmless: words of our own schema and of Kubernetes' API, numbers, times, places
in the log. A path such as a workload's key is replaced part by part, so that keys, ids and subjects still agree. A sentence is
withheld as a whole, because it may contain names. The same name always becomes the same pseudonym under the same key, by an HMAC:
without the key nobody can test guesses. A pseudonym falls into the same partition as the name, so that a cluster's records are
still found.
"""

import enum
import hashlib
import hmac
import pkgutil
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path

import orjson

import schemas
from schemas.ids import DecisionId, TaskSource
from streams import secret_files
from streams.codec.event_codec import is_of_a_clock
from streams.errors import BadInput
from streams.log.log_port import Headers, Record
from streams.topics import TOPICS, partition_of

WITHHELD = "(withheld)"
_LETTERS = 12
_LEAST_KEY = 16
_KEPT_FIELDS = frozenset(
    {"why", "guard", "stage", "kind", "api_version", "type", "resource_version", "operator", "effect", "protocol"}
    | {"code", "timezone", "object_kind", "restart_policy", "qos", "instance_type", "instance_types", "controlled_resources"}
)
"""Fields whose values are terms of Kubernetes' API or of ours, whatever they are."""
_OUR_TERMS = frozenset(("because", "settings"))
"""Fields whose keys are terms of ours."""
_BY_NAME = frozenset(
    {"containers", "floors", "caps", "skipped", "pods go to", "planned replicas", "hpa_utilization", "policy_grounds"}
)
"""Entries among these that are by the names of containers, groups, nodes or workloads."""
_WORDS = frozenset(
    {
        "cpu",
        "memory",
        "True",
        "False",
        "Unknown",
        "true",
        "false",
        "None",
        "tick",
        "*",
        "names",
        "workloads",
        "pods",
        "containers",
    }
    | {"text", "base64", "size", "ullage", "source", "kube", "traces", "operator", "history", "usage", "asg", "rules"}
    | {
        "consumer",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
        "Pod",
        "Node",
    }
    | {"HorizontalPodAutoscaler", "VerticalPodAutoscaler", "EffectiveHorizontalPodAutoscaler", "TimeSeriesPrediction"}
)
_PLAIN = re.compile(
    r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?[a-zA-Z%]{0,3}"  # a number, perhaps with a unit
    r"|\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?"  # a time
    r"|[\d*/,-]+( [\d*/,-]+){4}"  # a cron schedule
    r"|ullage\.[a-z-]+\.v\d+"  # a type of event
    r"|([\w.-]+\.)?(kubernetes\.io|k8s\.io|karpenter\.sh|crane\.io)/[\w.*-]+"  # a key of the API's own annotations
)
_IDS = frozenset(("id", "decision", "recommendation", "ce_id"))
_CITED_RULES = {"version", "place"}
_KEPT_HEADERS = frozenset(("content-type", "ce_specversion", "ce_type", "ce_time", "ce_cause", "cause"))


class Pseudonyms:
    """Replaces names with `key`. `prefix` and `partitions` are those of the topics."""

    def __init__(self, key: bytes, prefix: str, partitions: int) -> None:
        self._key, self._partitions = key, partitions
        self._pseudonyms: dict[str, str] = {}
        self._wires = frozenset(f"{prefix}.{topic.name}.v1" for topic in TOPICS)

    @property
    def fingerprint(self) -> str:
        """Distinguishes keys without revealing them."""
        return hmac.new(self._key, b"ullage fingerprint", hashlib.sha256).hexdigest()[:16]

    def record(self, record: Record) -> Record:
        """The record with pseudonyms. A tick has no names."""
        if is_of_a_clock(record):
            return record
        key = None if record.key is None else self._text(record.key.decode(errors="replace")).encode()
        headers: Headers = tuple((name, self._header(name, data)) for name, data in record.headers)
        return replace(record, key=key, value=self._value(record.value), headers=headers)

    def name(self, name: str) -> str:
        """The pseudonym of one name, which is a good name itself."""
        pseudonym = self._pseudonyms.get(name)
        if pseudonym is None:
            pseudonym = self._pseudonyms[name] = self._made(name)
        return pseudonym

    def _made(self, name: str) -> str:
        wanted, number = partition_of(name, self._partitions), 0
        while True:
            digest = hmac.new(self._key, f"{number}/{name}".encode(), hashlib.sha256).hexdigest()
            pseudonym = f"n{digest[:_LETTERS]}"
            # into the same partition as the name, or nobody would find a cluster's records
            if partition_of(pseudonym, self._partitions) == wanted:
                return pseudonym
            number += 1

    def _header(self, name: str, data: bytes) -> bytes:
        if name in _KEPT_HEADERS:
            return data
        text = data.decode(errors="replace")
        return (_source(text) or self._string(text, name)).encode()

    def _value(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        try:
            body = orjson.loads(value)
        except orjson.JSONDecodeError:
            # what is no JSON may have names anywhere
            return orjson.dumps(WITHHELD)
        return orjson.dumps(self._any(body, ""))

    def _any(self, value: object, field: str, *, ours: bool = False) -> object:
        """A value of a field. `ours`: it stands among terms of ours, whose keys are terms as well."""
        match value:
            case str():
                return self._string(value, field)
            case list():
                return [self._any(item, field if isinstance(item, str) else "", ours=ours) for item in value]
            case dict():
                return self._object(value, field, ours=ours or field in _OUR_TERMS)
        return value

    def _object(self, value: Mapping[str, object], field: str, *, ours: bool) -> dict[str, object]:
        """Keys are names of ours, but for a mapping from what others named; a label called `kind` says no kind."""
        if field in _mappings() or (ours and field in _BY_NAME):
            ours = ours and field != "policy_grounds"  # whose numbers a policy's author has named
            renamed = {self._text(name): self._any(item, "", ours=ours) for name, item in value.items()}
            # by pseudonym: the order of the names themselves would tell something of them
            return dict(sorted(renamed.items()))
        field_names = _field_names()
        if isinstance(version := value.get("version"), str) and ("program" in value or value.keys() == _CITED_RULES):
            ours_alone = {"version": version}  # a digest of rules; of a policy it is what its owner wrote
            value = {name: item for name, item in value.items() if name != "version"}
            return {**self._object(value, field, ours=ours), **ours_alone}
        return {
            name if ours or name in field_names else self._text(name): self._any(e, name, ours=ours) for name, e in value.items()
        }

    def _string(self, text: str, field: str) -> str:
        if field in _KEPT_FIELDS:
            return text
        return self._id(text) if field in _IDS else self._text(text)

    def _id(self, text: str) -> str:
        """An id keeps its stage, turn and kind of decision."""
        try:
            decision = DecisionId.parse(text)
        except ValueError:
            kind, slash, rest = text.partition("/")
            return f"{kind}/{self._text(rest)}" if slash and "-" in kind else self._text(text)
        return str(replace(decision, key=self._text(decision.key)))

    def _text(self, text: str) -> str:
        if not text or _PLAIN.fullmatch(text) or text in _kept_words() or text in self._wires:
            return text
        if any(wire in text for wire in self._wires) and re.fullmatch(r"[\w.-]+:\d+:\d+", text):
            return text
        if re.search(r"\s", text):
            return WITHHELD
        return "/".join(self._part(part) for part in text.split("/"))

    def _part(self, part: str) -> str:
        return part if not part or part in _kept_words() or _PLAIN.fullmatch(part) else self.name(part)


def key_of(path: Path) -> bytes:
    """The key that a file holds; a new one, readable by its owner only, when there is no file yet. Raises BadInput."""
    try:
        with path.open("x", encoding="ascii") as file:
            # before the key is in it, so that others never read it
            path.chmod(0o600)
            file.write(f"{secrets.token_hex(32)}\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise BadInput(f"the key for pseudonyms cannot be kept in '{path}': {error.strerror}") from error
    key = secret_files.read_key(path, f"the key for pseudonyms in '{path}'")
    if len(key) < _LEAST_KEY:
        raise BadInput(f"the key for pseudonyms in '{path}' has {len(key)} bytes; {_LEAST_KEY} are the least")
    return key


def _source(text: str) -> str:
    """The source of a stage's records, which contains no name; empty for any other source."""
    try:
        return str(TaskSource.parse(text))
    except ValueError:
        return ""


def _schema() -> Iterator[type]:
    """The classes that events are made of."""
    for module in pkgutil.walk_packages(schemas.__path__, "schemas."):
        yield from (thing for thing in vars(import_module(module.name)).values() if isinstance(thing, type))


@cache
def _kept_words() -> frozenset[str]:
    """Values of enumerations and short names of topics."""
    words = {member.value for kind in _schema() if issubclass(kind, enum.StrEnum) for member in kind}
    return frozenset(words | _WORDS | {topic.name for topic in TOPICS})


@cache
def _field_names() -> frozenset[str]:
    """Names of fields of events, and of the parts that dead letters and columns have."""
    names = {field.name for kind in _schema() if is_dataclass(kind) for field in fields(kind)}
    return frozenset(names | {"names", "text", "base64", "size", "reason", "path", "by", "key", "value", "headers"})


@cache
def _mappings() -> frozenset[str]:
    """Names of fields that map names, all but those whose names are ours."""
    names = {field.name for kind in _schema() if is_dataclass(kind) for field in fields(kind) if "Mapping" in str(field.type)}
    return frozenset(names - _OUR_TERMS)
