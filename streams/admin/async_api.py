"""The AsyncAPI 3 document of the topics: made from the topics, the catalogue and the event classes, for readers of our topics.

https://www.asyncapi.com/docs/reference/specification/v3.0.0 defines its structure, and the Kafka binding 0.5.0 how a topic is
described. Only the sentences are written by hand, so the document is as true as the code.
"""

from collections.abc import Mapping
from inspect import cleandoc, getdoc
from typing import Any

import msgspec

from schemas.catalogue import CATALOGUE, Kind
from schemas.facts.usage import MetricsScraped
from streams.codec.dead_letters import TYPE as DEAD_LETTER
from streams.topics import TOPICS, KeySpace, Topic, Topics

AsyncApiDocument = dict[str, Any]
VERSION = "3.0.0"
_BINDING = "0.5.0"
_REF = "#/components/schemas/{name}"
_TICK, _LETTER = "tick", "dead-letter"
_STRING: Mapping[str, object] = {"type": "string"}
_KEYS: Mapping[KeySpace, str] = {
    KeySpace.WORKLOAD: "the workload: cluster/namespace/Kind/name",
    KeySpace.CLUSTER: "the cluster's name",
    KeySpace.OBJECT: "the API object: cluster/namespace/name",
    KeySpace.BROADCAST: "what the record is about; a copy goes to every partition",
    KeySpace.LATEST: "as the record that it copies; the newest of each key counts",
    KeySpace.TASK: "a partition of a stage, as `stage/partition`",
    KeySpace.SOURCE: "as the record it is about",
    KeySpace.CLOCK: "`tick`; all are in one partition",
}
_ABOUT = (
    "Everything that Ullage knows and decides, as events on Kafka. Bodies are plain JSON; headers are CloudEvents in Kafka's "
    "binary mode. A name on the wire never changes its meaning: fields are added with a default, any other change raises the "
    "version in `ce_type`, and old versions stay readable. Ticks have a topic of their own, and no headers."
)


def document(topics: Topics, version: str) -> AsyncApiDocument:
    """The document for topics of this prefix and partition count, as `version` of the program writes them."""
    schemas = _schemas()
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "Ullage",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        # The specification requires a host, and each installation has brokers of its own.
        "servers": {"kafka": {"host": "localhost:9092", "protocol": "kafka", "description": "the brokers of `log.brokers`"}},
        "channels": {topic.name: _channel(topic, topics) for topic in TOPICS},
        "operations": {f"{verb}-{t.name}": _operation(t, verb) for t in TOPICS for verb in ("send", "receive")},
        "components": {
            "messages": {**{kind.name: _message(kind) for kind in CATALOGUE.kinds}, _TICK: _tick(), _LETTER: _dead_letter()},
            "messageTraits": {"cloud-event": {"headers": _headers()}},
            "schemas": schemas,
        },
    }


def _names(topic: Topic) -> list[str]:
    """What a topic carries."""
    if topic.keyed is KeySpace.SOURCE:
        return [_LETTER]
    if topic.keyed is KeySpace.CLOCK:
        return [_TICK]
    return [kind.name for kind in CATALOGUE.carried_by(topic.name)]


def _channel(topic: Topic, topics: Topics) -> AsyncApiDocument:
    configs = {name: _plain(value) for name, value in topic.configs().items()}
    # The binding has a list here, and Kafka a text with commas.
    configs["cleanup.policy"] = topic.cleanup.split(",")
    return {
        "address": topics.wire(topic.name),
        "description": f"{topic.carries[0].upper()}{topic.carries[1:]}. Key: {_KEYS[topic.keyed]}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _names(topic)},
        "bindings": {
            "kafka": {
                "topic": topics.wire(topic.name),
                "partitions": topics.count(topic.name),
                "topicConfiguration": {name: configs[name] for name in _KNOWN_CONFIGS if name in configs},
                "bindingVersion": _BINDING,
            }
        },
    }


_KNOWN_CONFIGS = ("cleanup.policy", "retention.ms", "max.message.bytes")
"""The settings of a topic that the binding knows."""


def _operation(topic: Topic, action: str) -> AsyncApiDocument:
    channel = f"#/channels/{topic.name}"
    messages = [{"$ref": f"{channel}/messages/{name}"} for name in _names(topic)]
    return {"action": action, "channel": {"$ref": channel}, "messages": messages}


def _message(kind: Kind) -> AsyncApiDocument:
    summary = (getdoc(kind.event) or "").splitlines()[0]
    return {
        "name": kind.wire,
        "title": kind.event.__name__,
        "summary": summary,
        "contentType": "application/json",
        "traits": [{"$ref": "#/components/messageTraits/cloud-event"}],
        "payload": {"$ref": _REF.format(name=kind.event.__name__)},
        "bindings": {"kafka": {"key": dict(_STRING), "bindingVersion": _BINDING}},
    }


def _tick() -> AsyncApiDocument:
    return {
        "name": _TICK,
        "summary": "The clock ticked. Its key is `tick`, and it has no headers.",
        "payload": {
            "type": "object",
            "required": ["at", "name", "after", "full", "ends"],
            "properties": {
                "at": {"type": "integer", "description": "milliseconds since 1970"},
                "name": {"type": "string", "description": "drawn by chance, so that no two ticks have the same"},
                "after": {
                    "type": ["array", "null"],
                    "description": "offset and name of the tick that it comes after; null for the first",
                },
                "full": {"type": "boolean", "description": "whether all partitions are listed, and not only those that moved"},
                "ends": {
                    "type": "object",
                    "description": "short name of a topic, then partition, to the offset after its last record",
                    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
                },
            },
        },
        "bindings": {"kafka": {"key": {"type": "string", "enum": [_TICK]}, "bindingVersion": _BINDING}},
    }


def _dead_letter() -> AsyncApiDocument:
    """As `streams.codec.dead_letters` writes them."""
    quoted: AsyncApiDocument = {"type": ["object", "null"]}
    properties: AsyncApiDocument = {
        "reason": dict(_STRING),
        "path": dict(_STRING),
        "topic": dict(_STRING),
        "partition": {"type": "integer"},
        "offset": {"type": ["integer", "null"]},
        "by": dict(_STRING),
        "key": quoted,
        "value": quoted,
        "headers": {"type": "array"},
    }
    return {
        "name": DEAD_LETTER,
        "summary": "A record that could not be read, why, and where it stands.",
        "traits": [{"$ref": "#/components/messageTraits/cloud-event"}],
        "payload": {"type": "object", "required": list(properties), "properties": properties},
    }


def _headers() -> AsyncApiDocument:
    texts = {
        "content-type": "application/json",
        "ce_specversion": "1.0",
        "ce_id": "an id that follows from the cause, so that a repeat has it again",
        "ce_type": "the event's type and version, as ullage.pod-changed.v1",
        "ce_source": "who wrote it",
        "ce_subject": "the record's key",
        "ce_time": "event time, RFC 3339 in UTC",
        "cause": "a JSON list of the places (topic:partition:offset) that it rests on",
        "ce_cause": "the same, as an extension attribute of CloudEvents",
    }
    properties = {name: {"type": "string", "description": text} for name, text in texts.items()}
    return {"type": "object", "required": ["ce_id", "ce_type", "ce_time"], "properties": properties}


def _schemas() -> dict[str, Any]:
    """The bodies as JSON Schema. A scrape's name columns stand in one object on the wire."""
    _, components = msgspec.json.schema_components(
        [kind.event for kind in CATALOGUE.kinds], ref_template=_REF, schema_hook=lambda _kind: {"description": "any value"}
    )
    for component in components.values():
        if "description" in component:
            component["description"] = cleandoc(component["description"])  # as Python 3.13 keeps docstrings
    scrape = components[MetricsScraped.__name__]
    properties, required = scrape["properties"], [name for name in scrape["required"] if name not in _COLUMNS]
    # The codec writes the name columns as one object, which msgspec does not know of.
    columns = {name: properties.pop(name) for name in _COLUMNS}
    for name in _MEASURED:
        # JSON has no NaN, so null stands for it.
        properties[name] = {"type": "array", "items": {"type": ["number", "null"]}}
    properties["names"] = {"type": "object", "required": list(columns), "properties": columns}
    scrape["required"] = [*required, "names"]
    return dict(sorted(components.items()))


_COLUMNS = ("workloads", "pods", "containers")
_MEASURED = ("cores", "memory", "cores_max", "memory_max")
"""Columns in which null stands for what was not seen."""


def _plain(text: str) -> object:
    return int(text) if text.lstrip("-").isdecimal() else text
