"""The rights that docs/security.md gives to each process: what the docs say is what tests grant."""

import re
from collections.abc import Iterator
from dataclasses import replace

from streams.topics import TOPICS, Topics
from tests.support.commands import ROOT
from tests.support.secured_kafka import Grant

PREFIX = "ullage"
_TOPIC_NAMES = {topic.name for topic in TOPICS}


def documented_rights(prefix: str = PREFIX, worker: str = PREFIX) -> dict[str, list[Grant]]:
    """The table of docs/security.md: a row gives a process its rights on topics, by short names, and on other objects.

    `prefix` and `worker` stand for `topics.prefix` and `worker.name`.
    """
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `user: (\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", text, re.MULTILINE)
    short = {user: [*_topics("Read", read), *_topics("Write", write), *_others(others)] for user, _, read, write, others in rows}
    return {user: [replace(grant, name=wire(grant.name, prefix, worker)) for grant in grants] for user, grants in short.items()}


def _topics(operation: str, cell: str) -> Iterator[Grant]:
    for name in re.findall(r"`([^`]+)`", cell):
        yield Grant(operation, "topic", name)


def _others(cell: str) -> Iterator[Grant]:
    """As in: Read on group `NAME`; Create, Describe on topic `PREFIX*`."""
    for part in filter(None, map(str.strip, cell.split(";"))):
        operations, kind, name = re.fullmatch(r"([A-Za-z, ]+) on (topic|group) `([^`]+)`", part).groups()  # type: ignore[union-attr]  # a row that does not match must fail
        for operation in operations.split(","):
            yield Grant(operation.strip(), kind, name)


def wire(name: str, prefix: str = PREFIX, worker: str = PREFIX) -> str:
    """The name at the broker of a topic, by its short name, or of another object of the table."""
    if name in _TOPIC_NAMES:
        return Topics(PREFIX).wire(name).replace(PREFIX, prefix, 1)
    return name.replace("PREFIX", prefix).replace("NAME", worker)
