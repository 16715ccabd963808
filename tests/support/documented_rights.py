"""The rights that docs/security.md gives to each process: what the docs say is what tests grant."""

import re
from collections.abc import Iterator

from streams.topics import TOPICS, Topics
from tests.support.commands import ROOT
from tests.support.secured_kafka import Grant

PREFIX = "ullage"
_TOPIC_NAMES = {topic.name for topic in TOPICS}


def documented_rights() -> dict[str, list[Grant]]:
    """The table of docs/security.md: a row gives a process its rights on topics, by short names, and on other objects."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `user: (\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", text, re.MULTILINE)
    return {user: [*_topics("Read", read), *_topics("Write", write), *_others(others)] for user, _, read, write, others in rows}


def _topics(operation: str, cell: str) -> Iterator[Grant]:
    for name in re.findall(r"`([^`]+)`", cell):
        yield Grant(operation, "topic", wire(name))


def _others(cell: str) -> Iterator[Grant]:
    """As in: Read on group `NAME`; Create, Describe on topic `PREFIX*`."""
    for part in filter(None, map(str.strip, cell.split(";"))):
        operations, kind, name = re.fullmatch(r"([A-Za-z, ]+) on (topic|group) `([^`]+)`", part).groups()  # type: ignore[union-attr]  # a row that does not match must fail
        for operation in operations.split(","):
            yield Grant(operation.strip(), kind, wire(name))


def wire(name: str) -> str:
    """The name at the broker of a topic, by its short name, or of another object of the table."""
    if name in _TOPIC_NAMES:
        return Topics(PREFIX).wire(name)
    return name.replace("PREFIX", PREFIX).replace("NAME", PREFIX)
