"""Two instances on one cluster: one is at work, the other takes over when it is frozen, nothing is done twice; and a pause."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from schemas.decisions.pod_updates import ResizePlanned
from schemas.facts.pods import PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import ActionFinished
from schemas.units import Bytes, Cores
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.test_roles import CLUSTER, KUBE, MIB, NAMES, RESIZER, Component
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.attested_plans import word_of


class Turns(Component):
    """Two processes of one component under one role, `one` and `other`, on one log."""

    def begin(self, which: str, component: str, *command: str) -> subprocess.Popen[bytes]:
        folder, home = self.folder, self.home.namespace
        self.folder = folder / which
        self.folder.mkdir()
        try:
            return self.start(component, *command, cluster__lease_namespace=home, webhook__namespace=home)
        finally:
            self.folder = folder

    def account(self, component: str) -> Any:
        if not self._accounts:
            super().account(component)
        return self._accounts[0]

    def holder(self, component: str) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.home.namespace}/leases/ullage-{component}"
        lease = self.world.ask.find(path)
        return str(lease["spec"]["holderIdentity"]) if lease else ""

    def wait_said(self, which: str, component: str, words: bytes) -> None:
        said = self.folder / which / component / "said.txt"
        wait_for(lambda: words in said.read_bytes(), timeout=60.0, what=f"'{which}' has said {words!r}")

    def resize(self, pod: PodName, identifier: str, cores: float) -> None:
        at, workload = datetime.now(UTC), Workload(CLUSTER, self.world.namespace, "Deployment", "web")
        before, after = Amounts(Cores(0.1), Bytes(64 * MIB)), Amounts(Cores(cores), Bytes(64 * MIB))
        plan = ResizePlanned(identifier, at, at + timedelta(minutes=5), workload, pod, {"app": after}, {}, {"app": before}, {})
        self.publish(plan, "pod-updates", CLUSTER)

    def wait_ended(self, *ended: tuple[str, str]) -> None:
        def found() -> bool:
            ticks.append(self.log, NAMES, int(datetime.now(UTC).timestamp() * 1000))
            outcomes = [e for e in self.logged("outcomes") if isinstance(e, ActionFinished)]
            return [(word_of(e.decision), e.result.value) for e in outcomes] == list(ended)

        wait_for(found, timeout=30.0, what=f"the outcomes are {ended}")

    def uids(self) -> list[str]:
        """Of the pods of this test that run, by each fact that says so."""
        pods = [e for e in self.logged("pod-changes") if isinstance(e, PodChanged) and e.pod.namespace == self.world.namespace]
        return [e.pod.uid for e in pods if e.phase is PodPhase.RUNNING]

    def pause(self) -> None:
        """As an operator does."""
        log = ("log.kind=file", f"log.path={self.path}", "topics.partitions=1", f"cluster.name={CLUSTER}")
        command = [sys.executable, "-m", "agents", "pause", "--reason", "INC-4711"]
        subprocess.run([*command, *(part for each in log for part in ("--set", each))], check=True, timeout=60.0)


@pytest.fixture
def turns(plane: Plane, world: World, tmp_path: Path) -> Iterator[Turns]:
    home = World(plane.ask)
    made = Turns(plane, home, world, tmp_path)
    yield made
    made.close()
    home.close()


def test_a_second_resizer_takes_over_from_a_frozen_one_which_does_no_harm_when_it_wakes_up_and_a_pause_stops_both(
    turns: Turns,
) -> None:
    found = turns.world.deployment("web", replicas=3)
    pods = [PodName(turns.world.namespace, pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in found]
    turns.apply()
    one = turns.begin("one", RESIZER, "consumer", "resizer")
    first = wait_for(lambda: turns.holder("resizer"), timeout=60.0, what="the first holds the Lease")
    turns.begin("other", RESIZER, "consumer", "resizer")
    turns.resize(pods[0], "first", 0.25)
    turns.wait_ended(("first", "done"))
    turns.wait_said("other", RESIZER, b"stands by")
    os.kill(one.pid, signal.SIGSTOP)
    turns.resize(pods[1], "second", 0.25)
    turns.wait_ended(("first", "done"), ("second", "done"))
    assert turns.holder("resizer") != first
    os.kill(one.pid, signal.SIGCONT)
    turns.wait_said("one", RESIZER, b"stands by")
    turns.pause()
    turns.resize(pods[2], "third", 0.25)
    turns.wait_ended(("first", "done"), ("second", "done"), ("third", "refused"))
    user = f"system:serviceaccount:{turns.home.namespace}:ullage-consumer-resizer"
    asked = turns.plane.changes(turns.world.namespace, "pods/resize", user=user)
    assert sorted(change.name for change in asked) == sorted(pod.name for pod in pods[:2])


def test_of_two_kube_sources_one_publishes_and_the_other_takes_over(turns: Turns) -> None:
    one = turns.begin("one", KUBE, "source", "kube")
    (pod,) = turns.world.deployment("web")
    wait_for(lambda: pod["metadata"]["uid"] in turns.uids(), timeout=60.0, what="the pod is in the log")
    turns.begin("other", KUBE, "source", "kube")
    turns.wait_said("other", KUBE, b"stands by")
    os.kill(one.pid, signal.SIGSTOP)
    (late,) = turns.world.deployment("late")
    wait_for(lambda: late["metadata"]["uid"] in turns.uids(), timeout=60.0, what="the other has published")
    os.kill(one.pid, signal.SIGCONT)
    assert one.wait(60.0) != 0  # it ends, to be started again
    turns.wait_said("one", KUBE, b"another instance holds the Lease of the kube source now")
    assert len(turns.uids()) == len(set(turns.uids()))
