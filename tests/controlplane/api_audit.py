"""What somebody asked the API server to change, by the server's own audit log: the answer to "was anything done twice?"."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """One question that would change something: `resource` as in the path (`pods/resize`), `code` what the server answered."""

    verb: str
    namespace: str
    resource: str
    name: str
    code: int


def read(log: Path, namespace: str, resource: str, *, user: str) -> list[Change]:
    """In order. A change is written down a moment after its answer: who waits for the last one uses `wait_for`."""
    lines = log.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
    published = [_change(event) for event in map(json.loads, lines) if event["user"].get("username") == user]
    return [change for change in published if (change.namespace, change.resource) == (namespace, resource)]


def _change(event: dict[str, Any]) -> Change:
    where, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
    resource = "/".join(filter(None, (where.get("resource"), where.get("subresource"))))
    return Change(event["verb"], where.get("namespace", ""), resource, where.get("name", ""), code)
