"""In what order a recovery asks the log; what it makes of the answers is tested on a real Kafka (tests/kafka)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from agents.app import log_reader
from agents.app.partition_recovery import Recovery


class _AskedError(Exception):
    """The inputs were asked for; the rest of a recovery does not matter here."""


class _Host:
    owned: dict[int, Any] = {}  # noqa: RUF012  # of nobody
    wires = {"input": "wire"}  # noqa: RUF012

    def __init__(self, name: str = "recommender") -> None:
        self.stage = SimpleNamespace(name=name)


def test_the_inputs_are_asked_for_once_the_changelogs_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A former owner may write marks while they are read, and one that is ahead of the known inputs is not believed."""
    read = False

    async def ends_of(_consumer: object, places: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 5)

    async def contents(_where: object, _until: object) -> dict[Any, Any]:
        nonlocal read
        await asyncio.sleep(0)
        read = True
        return {}

    async def kept_offsets(_consumer: object, _places: object) -> dict[Any, Any]:
        assert read
        raise _AskedError

    for asked in (contents, kept_offsets):
        monkeypatch.setattr(log_reader, asked.__name__, asked)
    monkeypatch.setattr(log_reader, "ends", ends_of)
    with pytest.raises(_AskedError):
        asyncio.run(_recovery()._load(None, {_Host(): {0}}))


def test_the_changelogs_of_one_stage_are_read_at_once_and_not_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All changelogs of a large state beside each other would be a worker's highest memory."""
    read: list[list[str]] = []

    async def ends_of(_consumer: object, places: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 5)

    async def contents(_where: object, until: Any) -> dict[Any, Any]:
        read.append([topic for topic, _ in until])
        return {}

    async def kept_offsets(_consumer: object, _places: object) -> dict[Any, Any]:
        return {}

    for asked in (contents, kept_offsets):
        monkeypatch.setattr(log_reader, asked.__name__, asked)
    monkeypatch.setattr(log_reader, "ends", ends_of)
    asyncio.run(_recovery()._load(None, {_Host("updater"): {0, 1}, _Host("scaler"): {0}}))
    assert read == [["updater-changelog", "updater-changelog"], ["scaler-changelog"]]


def _recovery() -> Any:
    recovery: Any = Recovery.__new__(Recovery)
    recovery.plan = SimpleNamespace(where=None, changelog=lambda stage: f"{stage.name}-changelog", inputs=lambda: ["wire"])
    return recovery
