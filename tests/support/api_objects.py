"""Objects of a Kubernetes API server in memory: versions, conflicts, and a server that is away or refuses when told so."""

import copy
import json
from collections.abc import Mapping
from typing import Any

from schemas.units import Seconds
from streams.errors import EdgeError, TryAgain, Unreachable


class ApiObjects:
    """What `PlainObjects` asks, without a server. The real one answers in tests/controlplane."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.asked = 0
        """Writes that were asked for, with those that did not work."""
        self.away = False
        self.refusal: EdgeError | None = None
        """What each write is answered with."""
        self._version = 0

    def find(self, name: str) -> dict[str, Any] | None:
        self._look()
        found = self.held.get(name)
        return None if found is None else json.loads(json.dumps(found))  # type: ignore[no-any-return]  # an object

    def create(self, name: str, body: Mapping[str, object]) -> dict[str, Any]:
        self._ask_to_write()
        if name in self.held:
            raise self._conflict(name)
        return self._write(name, body)

    def replace(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._ask_to_write()
        if self.held[name]["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
            raise self._conflict(name)
        return self._write(name, body)

    def delete(self, name: str) -> bool:
        self._look()
        return self.held.pop(name, None) is not None

    def _write(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.writes += 1
        self.held[name] = json.loads(json.dumps(body))
        self.held[name]["metadata"]["resourceVersion"] = str(self._version)
        return self.held[name]

    def _look(self) -> None:
        if self.away:
            raise Unreachable(doing="asking", to="the server", answer="nobody answered", after=Seconds(1.0))

    def _ask_to_write(self) -> None:
        self.asked += 1
        self._look()
        if self.refusal is not None:
            raise self.refusal

    def _conflict(self, name: str) -> TryAgain:
        return TryAgain(doing="writing", to=name, answer="409 the object has been modified", after=Seconds(1.0))

    def change(self, name: str, by: str = "somebody", **parts: Any) -> None:
        """Somebody else writes parts of an object."""
        self._version += 1
        writers = [{"manager": by, "operation": "Update", "time": "2026-01-02T00:00:00Z"}]
        about = {**self.held[name]["metadata"], "resourceVersion": str(self._version), "managedFields": writers}
        self.held[name] = {**self.held[name], **copy.deepcopy(parts), "metadata": about}


def merge_patch(there: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """An object after a merge patch, RFC 7386."""
    found = copy.deepcopy(dict(there))
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            below = found.get(key)
            found[key] = merge_patch(below if isinstance(below, dict) else {}, value)
        else:
            found[key] = copy.deepcopy(value)
    return found
