"""A log file read without any code of the project: what a test computes from it is of another hand than a command's answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class RawLog:
    """The records of a `.jsonl` log by short topic, in order; ticks are left out."""

    def __init__(self, path: Path) -> None:
        self._of: dict[str, list[tuple[str, Json]]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            headers = dict(record.get("headers") or ())
            if record.get("value") and headers.get("ce_type", "").startswith("ullage."):
                topic = record["at"].split(".")[1]
                self._of.setdefault(topic, []).append((headers["ce_type"].split(".")[1], json.loads(record["value"])))

    def of(self, topic: str, kind: str = "", workload: str = "") -> list[Json]:
        """The bodies of a topic's records: of one kind, and of one workload's name, if these are given."""
        return [
            body
            for name, body in self._of.get(topic, ())
            if kind in ("", name) and workload in ("", (body.get("workload") or {}).get("name"))
        ]

    def ids(self) -> Iterator[str]:
        """The ids of all decisions, each copy in another topic once more."""
        for topic in ("recommendations", "memory-leaks", "pod-updates", "node-updates", "replica-plans"):
            yield from (body["id"] for body in self.of(topic))

    def limits(self, pod: str) -> list[tuple[str, int, int | None]]:
        """When a pod was seen with which memory limit, and what its owner had asked for, where a note says so."""
        found = []
        for fact in self.of("pod-changes", "pod-changed"):
            if fact["pod"]["name"] == pod:
                note = fact.get("admitted") or {}
                before = [each["limits"].get("memory") for each in note.get("before", ())]
                found.append((fact["at"], fact["containers"][0]["limits"].get("memory"), before[0] if before else None))
        return found


def moment(text: str) -> str:
    """`2026-01-05T03:31:00Z` as people read it."""
    return text[:19].replace("T", " ")


def size(number: float) -> str:
    """Bytes as people read them."""
    return f"{number / 2**20:.1f} MiB" if number < 2**30 else f"{number / 2**30:.2f} GiB"
