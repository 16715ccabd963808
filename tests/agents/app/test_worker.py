"""How the worker's one agent hands records to the stage hosts, without Faust."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from agents.app import worker, worker_plan
from agents.settings.all_settings import Settings, WorkerSettings


class Host:
    """A stage host that needs 20 ms for each record of the one topic that it reads."""

    def __init__(self, name: str, seen: list[str], clock: SimpleNamespace) -> None:
        self.name, self.seen, self.clock, self.names = name, seen, clock, {"wire": "policies"}

    async def handle(self, _came: object) -> None:
        self.clock.now += 0.02
        self.seen.append(self.name)


def test_others_run_between_two_stages_when_a_turn_of_the_first_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(worker, "perf_counter", lambda: clock.now)
    agents: list[Any] = []
    app: Any = SimpleNamespace(topic=lambda *_wires, **_how: None, agent=lambda _channel, name: agents.append)  # noqa: ARG005  # as Faust calls it
    hosts: list[Any] = [Host(name, seen, clock) for name in ("a", "b", "c")]
    worker._add_agent(app, hosts)

    async def events() -> AsyncIterator[object]:
        records = [SimpleNamespace(topic=wire) for wire in ("wire", "another", "wire")]
        yield SimpleNamespace(message=SimpleNamespace(records=records))

    async def other() -> None:
        while True:
            seen.append("other")
            await asyncio.sleep(0)

    async def run() -> None:
        beside = asyncio.create_task(other())
        await agents[0](SimpleNamespace(noack=lambda: SimpleNamespace(events=events)))
        beside.cancel()

    asyncio.run(run())
    assert seen == ["a", "other", "b", "c", "other", "a", "b", "other", "c"], "30 ms at most, and what a stage needs"


def test_faust_can_name_all_that_its_one_agent_reads_and_say_what_tables_hold() -> None:
    app = worker.build(worker_plan.from_settings())
    (agent,) = app.agents.values()
    assert {"ullage.pod-metrics.v1", "ullage.policies.v1"} < set(agent.channel.get_topic_name().splitlines())
    assert agent.help
    assert {table.help for table in app.tables.values()} > {
        "Checkpoints of the stage updater: chunks of its state, and marks that name them."
    }


def test_a_worker_keeps_its_partitions_for_as_long_as_it_is_told() -> None:
    settings = Settings(worker=WorkerSettings(session_seconds=20.0))
    app = worker.build(worker_plan.from_settings(settings))
    assert app.conf.broker_session_timeout == 20.0
    assert app.conf.broker_heartbeat_interval <= WorkerSettings(session_seconds=3.0).session_seconds / 3
    assert app.conf.broker_request_timeout >= 60.0, "Faust wants a request to outlive a session"
