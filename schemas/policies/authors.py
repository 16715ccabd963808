"""Who commanded: every record by which somebody decides what Ullage may do says who wrote it, and how we know.

The name is what the writer's own client says. Kafka checks a principal when it lets somebody write, so whoever has a right on the
topic can write any name here; docs/security.md says who has that right.
"""

from dataclasses import dataclass
from enum import StrEnum


class KnownBy(StrEnum):
    """Where an author's name comes from."""

    KAFKA = "kafka"
    """The principal with which the client logs in to Kafka."""
    SYSTEM = "system"
    """The user and host of the operating system, where Kafka asks for no login."""
    CLUSTER = "cluster"
    """The field manager that last changed the spec of an object of the cluster, and when; its client chose the name."""


_SAYS = {KnownBy.KAFKA: "Kafka principal", KnownBy.SYSTEM: "user of the host", KnownBy.CLUSTER: "field manager"}


@dataclass(frozen=True, slots=True)
class Author:
    """A name, such as a Kafka principal or user@host, and where it comes from."""

    name: str
    known_by: KnownBy

    def __str__(self) -> str:
        return f"{self.name} ({_SAYS[self.known_by]})"
