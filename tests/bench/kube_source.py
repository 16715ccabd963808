"""`python -m tests.bench.kube_source`: what `source kube` keeps of a pod, and what a rolled-out pod costs it. In `make bench`."""

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from streams.clients.kube.scheduling_objects import ScheduledPodObject
from streams.log.log_port import NewRecord, size_of
from tests.bench.fleet import PODS
from tests.support import kube_objects
from tests.support.kube_scene import KubeScene
from tests.support.lossy_log import AwayLog

PODS_SEEN = 10_000
ROLLED_OUT = 2_000


class Nowhere(AwayLog):
    """A log that keeps nothing, for what it holds is no memory of the source. `written` counts bytes of records."""

    written = 0

    def append(self, records: Iterable[NewRecord]) -> Sequence[object]:
        sizes = [size_of(record) for record in records]
        self.written += sum(sizes)
        return [None for _ in sizes]


def measure(put: Callable[[str, float, str, str], object], pods: int = PODS_SEEN) -> None:
    """Of a container each, five to a Deployment."""
    scene = KubeScene(log=Nowhere())
    names = [f"app-{number}" for number in range(pods // PODS)]
    scene.see("deployments", *(kube_objects.controller(name, labels={"app": name}) for name in names))
    scene.sync()
    gc.collect()
    tracemalloc.start(1)
    for name in names:
        owner = kube_objects.owner("Deployment", name)
        scene.see("pods", *(kube_objects.pod(f"{name}-7d9f8b6c5-{number:05d}", owner) for number in range(PODS)))
    gc.collect()
    put("kube source: memory a pod", tracemalloc.get_traced_memory()[0] / pods, "bytes", "")
    tracemalloc.stop()
    rollout(put, min(pods, ROLLED_OUT))


def rollout(put: Callable[[str, float, str, str], object], pods: int = ROLLED_OUT) -> None:
    """What one pod and its predecessor show in a rollout, one answer of the watch at a time, for all stages, nodes among them."""
    log = Nowhere()
    scene = KubeScene(log=log, nodes=True)
    names = [f"app-{number}" for number in range(pods // PODS)]
    scene.see("deployments", *(kube_objects.controller(name, labels={"app": name}) for name in names))
    for version in ("old", "new"):
        sets = (kube_objects.controller(f"{n}-{version}", kube_objects.owner("Deployment", n), labels={"app": n}) for n in names)
        scene.see("replicasets", *sets)
    scene.see("nodes", *(kube_objects.node(f"node-{number}") for number in range(pods // 20)))
    for name in names:
        scene.see("pods", *(_decoded(shows) for number in range(PODS) for *_, shows in [_comes(name, "old", number)]))
    scene.sync()
    answers = [shows for name in names for number in range(PODS) for shows in _replaced(name, number)]
    gc.collect()
    before, began = log.written, time.process_time()
    for shows, gone in answers:
        if gone:
            scene.lose("pods", _decoded(shows))
        else:
            scene.see("pods", _decoded(shows))
    put("kube source: CPU of a rolled-out pod", 1000 * (time.process_time() - began) / pods, "ms", "<= 1")
    put("kube source: bytes of a rolled-out pod in the log", (log.written - before) / pods, "bytes", "")


def _decoded(shows: bytes) -> ScheduledPodObject:
    return msgspec.json.decode(shows, type=ScheduledPodObject)


def _replaced(name: str, number: int) -> Iterator[tuple[bytes, bool]]:
    """What a watch shows of a pod that comes, and of the one that goes for it; whether that is its end."""
    yield from ((shows, False) for shows in _comes(name, "new", number))
    *_, there = _comes(name, "old", number)
    leaving = json.loads(there)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-05T01:00:00Z"
    yield json.dumps(leaving).encode(), False
    leaving["status"]["containerStatuses"][0]["ready"] = False
    yield json.dumps(leaving).encode(), False
    yield json.dumps(leaving).encode(), True


def _comes(name: str, version: str, number: int) -> Iterator[bytes]:
    """A pod that waits, has a node, runs, and is ready."""
    metadata = kube_objects.meta(f"{name}-{version}-{number:05d}", kube_objects.owner("ReplicaSet", f"{name}-{version}"))
    metadata |= {"labels": {"app": name, "pod-template-hash": version}}
    amounts = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
    spec = {"containers": [{"name": "app", "image": "registry.example/shop/app:1", "resources": amounts}], "priority": 0}
    yield json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}).encode()
    spec |= {"nodeName": f"node-{number % 100}"}
    yield json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}).encode()
    for ready in (False, True):
        state = {"name": "app", "ready": ready, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-05T00:30:00Z"}}}
        status = {"phase": "Running", "containerStatuses": [{**state, "resources": amounts}]}
        yield json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


if __name__ == "__main__":
    measure(lambda name, value, unit, _goal: sys.stdout.write(f"{name}: {value:,.2f} {unit}\n"))
