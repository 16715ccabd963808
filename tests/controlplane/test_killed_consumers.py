"""Resizer and evictor killed at any point of their work on a real API server, and started again: nothing is done twice."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import Pod
from streams.clients.kube.cluster_client import KubernetesClient
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS
from tests.controlplane import audit_judge
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.test_acting import AFTER, CLUSTER, ActingScene, name_of
from tests.controlplane.test_roles import EVICTOR, MIB, NAMES, RESIZER, Component
from tests.controlplane.test_taking_turns import Turns
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.attested_plans import of_a_turn, with_attestations, word_of
from tests.support.scaled_world import DeadlyLog, Killed, KillSwitch


class DeadlyClient(KubernetesClient):
    """Resizes and evictions are steps, at which whoever asks may be killed, before the server does it or right after."""

    switch = KillSwitch()

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        self._step(lambda: super(DeadlyClient, self).resize(pod, requests=requests, limits=limits))

    def evict(self, pod: PodName) -> None:
        self._step(lambda: super(DeadlyClient, self).evict(pod))

    def _step(self, do: Callable[[], None]) -> None:
        self.switch.step(done=False)
        do()
        self.switch.step(done=True)


class DeadlyScene(ActingScene):
    """The scene with a log and a client that kill; both count the same steps."""

    def __init__(self, world: World, plane: Plane) -> None:
        self.switch = DeadlyLog.switch = DeadlyClient.switch = KillSwitch()
        super().__init__(world)
        self.log = DeadlyLog()
        self.context = LogContext(self.log, self.topics, self.codec, CLUSTER)
        self.client = DeadlyClient(CLUSTER, plane.api_client())
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.publish(ControlChanged(datetime.now(UTC), CLUSTER, Mode.APPLY), "control")

    def tick(self, ahead: timedelta = timedelta()) -> None:
        """The clock is no process that is killed here, and neither is whoever plans."""
        number = int((datetime.now(UTC) + ahead).timestamp() * 1000)
        with self.switch.off():
            ticks.append(self.log, self.topics, number)

    def publish(self, event: Event, topic: str) -> None:
        record = self.codec.encode(of_a_turn(event), topic=topic, key=CLUSTER, partition=0, source="/test")
        MemoryLog.append(self.log, with_attestations([record], self.topics))

    def play(self, name: str, kill: tuple[int, bool] | None) -> tuple[Any, Any]:
        """One pod is to be resized and one to be evicted, by consumers that are killed once; the pods before and after."""
        before = self.world.deployment(name, replicas=2)
        self.tick()
        self.resize(before[0], f"{name}/r", requests={"app": AFTER})
        self.evict(before[1], f"{name}/e")
        if kill is not None:
            self.switch.arm(kill[0], after=kill[1])
        processes = iter(lambda: (resizer(self.context, self.client), evictor(self.context, self.client)), None)
        consumers = next(processes)
        wanted = {f"{name}/r", f"{name}/e"}

        def ended() -> bool:
            nonlocal consumers
            try:
                self.tick()
                for consumer in consumers:
                    consumer.poll_once()
            except Killed:
                self.switch.disarm()
                consumers = next(processes)
            return wanted <= {word_of(outcome.decision) for outcome in self.outcomes()}

        wait_for(ended, timeout=60.0, what="both have outcomes")
        gone = lambda: before[1]["metadata"]["uid"] not in {p["metadata"]["uid"] for p in self.world.pods(name)}  # noqa: E731
        wait_for(gone, what="the evicted pod is gone")
        return before, self.world.running(name, 2)


def amounts(pod: Any) -> Any:
    return pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]


def test_a_kill_at_any_point_changes_neither_the_number_of_acts_nor_the_final_state(plane: Plane, world: World) -> None:
    scene, plays = DeadlyScene(world, plane), 0
    for plays, kill in enumerate(points_of(scene), 1):
        before, after = scene.play(f"w{plays}", kill)
        resized, evicted = before
        uids = {pod["metadata"]["uid"]: amounts(pod) for pod in after}
        assert uids.pop(resized["metadata"]["uid"]) == "200m", kill
        assert list(uids.values()) == ["100m"], kill  # the successor, which nobody touched
        for pod, resource in ((resized, "pods/resize"), (evicted, "pods/eviction")):
            done = [c for c in plane.changes(world.namespace, resource) if c.name == pod["metadata"]["name"] and c.code < 300]
            assert len(done) == 1, (kill, done)
    assert plays >= 9  # four steps, before and after each, and once without a kill
    assert {outcome.result for outcome in scene.outcomes()} == {Result.DONE}


def points_of(scene: DeadlyScene) -> Iterator[tuple[int, bool] | None]:
    """First without a kill, which counts the steps of one play; then a kill before and after each of them."""
    begun = scene.switch.steps
    yield None
    for step in range(scene.switch.steps - begun):
        yield step, False
        yield step, True


class Accounts(Turns):
    """Each component under its own role, which its next process takes over."""

    def __init__(self, plane: Plane, home: World, world: World, folder: Path) -> None:
        super().__init__(plane, home, world, folder)
        self._by_component: dict[str, Any] = {}

    def account(self, component: str) -> Any:
        if component not in self._by_component:
            self._by_component[component] = Component.account(self, component)
        return self._by_component[component]


@pytest.fixture
def accounts(plane: Plane, world: World, tmp_path: Path) -> Iterator[Accounts]:
    home = World(plane.ask)
    made = Accounts(plane, home, world, tmp_path)
    yield made
    made.close()
    home.close()


def test_processes_that_are_killed_again_and_again_do_everything_once(accounts: Accounts) -> None:
    turns = accounts
    chance = random.Random(8)
    found = turns.world.deployment("web", replicas=8)
    pods = [name_of(pod) for pod in found]
    turns.apply()
    for number, pod in enumerate(pods):
        if number % 2:
            turns.resize(pod, f"r{number}", 0.25)
        else:
            at, workload = datetime.now(UTC), Workload(CLUSTER, turns.world.namespace, "Deployment", "web")
            expect = {"app": Amounts(Cores(0.1), Bytes(64 * MIB))}
            plan = EvictionPlanned(f"e{number}", at, at + timedelta(minutes=5), workload, pod, expect, {})
            turns.publish(plan, "pod-updates", CLUSTER)
    kills = 0

    def outcomes() -> dict[str, str]:
        ticks.append(turns.log, NAMES, int(datetime.now(UTC).timestamp() * 1000))
        return {word_of(e.decision): e.result.value for e in turns.logged("outcomes") if isinstance(e, ActionFinished)}

    while len(outcomes()) < len(pods):
        kills += 1
        assert kills < 30, outcomes()
        running = [begin(turns, f"{kills}", component, what) for component, what in ((RESIZER, "resizer"), (EVICTOR, "evictor"))]
        known, until = len(outcomes()), time.monotonic() + 60
        while len(outcomes()) == known and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.3))  # at any point of what comes next
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait(60.0)
    assert kills > 1
    assert set(outcomes().values()) == {"done"}
    ours = [f"system:serviceaccount:{turns.home.namespace}:ullage-{component}" for component in (RESIZER, EVICTOR)]
    evicted = turns.plane.changes(turns.world.namespace, "pods/eviction", user=ours[1])
    accepted = sorted(change.name for change in evicted if change.code < 300)
    assert accepted == sorted(pod.name for pod in pods[::2])
    said = [event for event in turns.logged("outcomes") if isinstance(event, ActionFinished)]
    assert audit_judge.faults(turns.plane.at.audit, turns.world.namespace, said, ours) == []
    for made_up in said[0], next(each for each in said if each.action is not said[0].action):
        again = replace(made_up, id=f"{made_up.id}/again", detail=OutcomeDetail.APPLIED)
        [fault] = audit_judge.faults(turns.plane.at.audit, turns.world.namespace, [*said, again], ours)
        assert "is done, and nobody asked for it" in fault
    after = {pod["metadata"]["uid"]: amounts(pod) for pod in turns.world.running("web", len(pods))}
    assert [after[pod.uid] for pod in pods[1::2]] == ["250m"] * 4
    assert sorted(amount for uid, amount in after.items() if uid not in {pod.uid for pod in pods}) == ["100m"] * 4


def begin(turns: Turns, which: str, component: str, what: str) -> subprocess.Popen[bytes]:
    """The process of one consumer, which goes without Leases, so that the next one need not wait for them."""
    folder = turns.folder
    turns.folder = folder / f"{which}-{what}"
    turns.folder.mkdir()
    try:
        return turns.start(component, "consumer", what, evictor__needs_webhook="false")
    finally:
        turns.folder = folder
