"""The AsyncAPI document: well-formed, and true of every record that the golden files of the wire show."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from schemas.catalogue import CATALOGUE
from streams.admin import async_api
from streams.topics import TOPICS, Topics
from tests.support import golden_wire

REF = {"type": "object", "required": ["$ref"], "properties": {"$ref": {"type": "string", "pattern": "^#/"}}}
OPERATION = {
    "type": "object",
    "required": ["action", "channel"],
    "additionalProperties": False,
    "properties": {"action": {"enum": ["send", "receive"]}, "channel": REF, "messages": {"type": "array", "items": REF}},
}
CHANNEL = {
    "type": "object",
    "required": ["address", "messages", "bindings"],
    "additionalProperties": False,
    "properties": {
        "address": {"type": "string"},
        "description": {"type": "string"},
        "messages": {"type": "object", "minProperties": 1, "additionalProperties": REF},
        "bindings": {
            "type": "object",
            "required": ["kafka"],
            "properties": {
                "kafka": {
                    "type": "object",
                    "required": ["bindingVersion"],
                    "additionalProperties": False,
                    "properties": {
                        "topic": {"type": "string"},
                        "partitions": {"type": "integer", "minimum": 1},
                        "replicas": {"type": "integer", "minimum": 1},
                        "topicConfiguration": {
                            "type": "object",
                            "properties": {"cleanup.policy": {"type": "array", "items": {"enum": ["compact", "delete"]}}},
                        },
                        "bindingVersion": {"const": "0.5.0"},
                    },
                }
            },
        },
    },
}
MESSAGE = {
    "type": "object",
    "required": ["payload"],
    "additionalProperties": False,
    "properties": {
        **{key: {"type": "string"} for key in ("name", "title", "summary", "contentType")},
        "payload": {"type": "object"},
        "traits": {"type": "array", "items": REF},
        "bindings": {"type": "object"},
    },
}
SHAPE = {
    "type": "object",
    "required": ["asyncapi", "info"],
    "additionalProperties": False,
    "properties": {
        "asyncapi": {"const": "3.0.0"},
        "info": {"type": "object", "required": ["title", "version"]},
        "defaultContentType": {"type": "string"},
        "servers": {"type": "object", "additionalProperties": {"type": "object", "required": ["host", "protocol"]}},
        "channels": {"type": "object", "additionalProperties": CHANNEL},
        "operations": {"type": "object", "additionalProperties": OPERATION},
        "components": {
            "type": "object",
            "propertyNames": {"enum": ["messages", "messageTraits", "schemas"]},
            "properties": {"messages": {"type": "object", "additionalProperties": MESSAGE}},
        },
    },
}
"""What the specification of AsyncAPI 3.0.0 asks of the parts that we use."""


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(json.dumps(async_api.document(Topics(), "0.1.0")))


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def resolved(document: Any, reference: str) -> Any:
    found = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def test_it_has_the_shape_that_the_specification_asks_for_and_every_reference_leads_somewhere(document: Any) -> None:
    jsonschema.validate(document, SHAPE)
    assert {type(resolved(document, reference)) for reference in references(document)} == {dict}


def test_every_topic_and_every_type_of_event_is_in_it_and_a_message_of_an_operation_is_of_its_channel(document: Any) -> None:
    assert set(document["channels"]) == {topic.name for topic in TOPICS}
    assert set(document["components"]["messages"]) == {kind.name for kind in CATALOGUE.kinds} | {"tick", "dead-letter"}
    for operation in document["operations"].values():
        assert all(message["$ref"].startswith(f"{operation['channel']['$ref']}/messages/") for message in operation["messages"])


def test_the_schemas_are_schemas(document: Any) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", CATALOGUE.kinds, ids=lambda kind: kind.name)
def test_a_record_on_the_wire_is_as_the_document_says(kind: Any, document: Any) -> None:
    record = json.loads(golden_wire.path(kind).read_text())
    [channel] = [each for each in document["channels"].values() if each["address"] == record["topic"]]
    assert kind.name in channel["messages"]
    assert document["components"]["messages"][kind.name]["name"] == record["headers"]["ce_type"]
    attributes = {name.removeprefix("ce_") for name in record["headers"] if name.startswith("ce_")}
    assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in attributes), "what CloudEvents 1.0 calls a name"
    assert attributes >= {"id", "source", "specversion", "type"}
    assert record["headers"]["ce_cause"] == record["headers"]["cause"]
    jsonschema.validate(record["value"], {**document, "$ref": f"#/components/schemas/{kind.event.__name__}"})
    jsonschema.validate(record["headers"], document["components"]["messageTraits"]["cloud-event"]["headers"])


def test_what_is_not_so_is_refused(document: Any) -> None:
    record = json.loads((golden_wire.FOLDER / "pod-changed.v1.json").read_text())
    del record["value"]["workload"]["name"]
    with pytest.raises(jsonschema.ValidationError, match="'name' is a required property"):
        jsonschema.validate(record["value"], {**document, "$ref": "#/components/schemas/PodChanged"})
