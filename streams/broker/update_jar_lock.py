"""Renews the lock of Kafka's jars: `python -m streams.broker.update_jar_lock`.

To move to another version, change the coordinates in kafka.lock, run this, and read the difference. It fetches every jar the lock
names and writes its size and sum; comments stay. Maven's own transitive resolution does not work here, because kafka's pom asks
for an artifact that is not published.
"""

import sys
from collections.abc import Mapping

from streams.broker import jars


def main() -> int:
    """Fetch what the lock names and write its sizes and sums."""
    text = jars.LOCK.read_text(encoding="utf-8")
    names = [line.split()[0] for line in text.splitlines() if jars.names_a_jar(line)]
    jars.LOCK.write_text(renewed(text, jars.measure(names)), encoding="utf-8")
    sys.stdout.write(f"{len(names)} jars measured into {jars.LOCK}\n")
    return 0


def renewed(text: str, contents: Mapping[str, tuple[int, str]]) -> str:
    """The lock text with the size and sum of each coordinate replaced."""
    return "".join(f"{_line(line, contents)}\n" for line in text.splitlines())


def _line(line: str, contents: Mapping[str, tuple[int, str]]) -> str:
    if not jars.names_a_jar(line):
        return line
    name = line.split(maxsplit=1)[0]
    size, sha256 = contents[name]
    return f"{name} {size} {sha256}"


if __name__ == "__main__":
    sys.exit(main())
