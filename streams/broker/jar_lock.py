"""The lock of Kafka's jars: which files make a broker, and the sha256 and size each must have.

It only reads the lock; `streams.broker.update_jar_lock` writes it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from streams.errors import BadInput

LOCK = Path(__file__).with_name("kafka.lock")
_LINE = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+)\s+(\d+)\s+([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar by its Maven coordinates, with the content it must have."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """Its file name, unique within the lock."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        """As Maven writes them: group:artifact:version."""
        return f"{self.group}:{self.artifact}:{self.version}"


def parse(text: str, *, where: str) -> tuple[Jar, ...]:
    """The jars of a lock file. Raises BadInput with the line number for a line that is not a jar, a comment or empty."""
    jars: list[Jar] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not names_a_jar(line):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            msg = f"line {number} of '{where}' is not 'group:artifact:version size sha256': '{line}'"
            raise BadInput(msg)
        group, artifact, version, size, sha256 = match.groups()
        jars.append(Jar(group, artifact, version, int(size), sha256))
    return tuple(jars)


def read(path: Path = LOCK) -> tuple[Jar, ...]:
    """The jars of the lock that ships with the program."""
    return parse(path.read_text(encoding="utf-8"), where=str(path))


def kafka_version(jars: tuple[Jar, ...]) -> str:
    """The version of Kafka itself."""
    return next(jar.version for jar in jars if jar.artifact == "kafka-server")


def names_a_jar(line: str) -> bool:
    """Neither empty nor a comment."""
    return bool(line.strip()) and not line.startswith("#")
