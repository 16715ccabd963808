"""The golden files of the wire: one record of each event type and version. `make golden` adds the missing ones.

A file that exists is never changed: it shows what is in somebody's log.
"""

from pathlib import Path

import orjson

from schemas.catalogue import CATALOGUE, Event, Kind
from schemas.names import Place
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.support import examples

FOLDER = Path(__file__).parents[1] / "golden" / "wire"
CAUSE = (Place("ullage.pod-metrics.v1", 1, 4711), Place("ullage.policies.v1", 1, 7))


def path(kind: Kind, version: int | None = None) -> Path:
    """The golden file of a kind, of the version written today or of another one."""
    return FOLDER / f"{kind.name}.v{version or kind.version}.json"


def encoded(event: Event, cause: tuple[Place, ...] = ()) -> NewRecord:
    """The record of an event in the first topic that carries it."""
    topic = CATALOGUE.of(type(event)).topics[0]
    return Codec(Topics()).encode(event, topic=topic, key="prod", partition=1, source="/ullage/source/test", cause=cause)


def readable(new: NewRecord) -> bytes:
    """What a golden file shows of a record."""
    record = {
        "topic": new.topic,
        "partition": new.partition,
        "key": new.key.decode(),
        "headers": {name: value.decode() for name, value in new.headers},
        "value": orjson.loads(new.value),
    }
    return orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n"


def write_missing() -> list[Path]:
    """Write the golden files that are not there; which."""
    wanted = {path(CATALOGUE.of(type(event))): event for event in examples.EVENTS}
    missing = [file for file in wanted if not file.exists()]
    for file in missing:
        file.write_bytes(readable(encoded(wanted[file], CAUSE)))
    return missing


if __name__ == "__main__":
    for added in write_missing():
        print(f"wrote {added}: read it line by line")  # noqa: T201  # a command for people
