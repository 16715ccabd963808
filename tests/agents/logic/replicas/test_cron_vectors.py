"""Crons against upstream's own: when a window is active, which schedules are none, and what a cron is called."""

from typing import Any

import pytest

from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_crons import CronEntry
from tests.support.ehpa_vectors import Json, vectors


def state(cron: CronEntry, now: float) -> Any:
    try:
        return ehpa_crons.active(cron, now)
    except ValueError:
        return "error"


@pytest.mark.parametrize("vector", vectors("cron"))
def test_crons_are_active_when_upstreams_are(vector: Json) -> None:
    inputs = vector["inputs"]
    cron = CronEntry("n", inputs["start"], inputs["end"], 1, inputs.get("timezone") or "")
    found = [state(cron, now) for now in inputs["now"]]
    expected = vector["expected"]["active"]
    assert [(now, a, b) for now, a, b in zip(inputs["now"], found, expected, strict=True) if a != b] == []


@pytest.mark.parametrize("vector", vectors("cron_name"))
def test_crons_are_called_what_upstream_calls_them(vector: Json) -> None:
    inputs = vector["inputs"]
    cron = CronEntry.read(inputs["cron"])
    found = ehpa_crons.name(cron, namespace=inputs["namespace"], ehpa=inputs["ehpa"], default_zone=inputs["process_timezone"])
    assert found == vector["expected"]["name"]
