"""`python -m tests.bench.kube_source`: what `source kube` keeps of each pod, as Python allocates it. In `make bench`."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Sequence

from streams.log.log_port import NewRecord
from tests.bench.fleet import PODS
from tests.support import kube_objects
from tests.support.kube_scene import KubeScene
from tests.support.lossy_log import AwayLog

PODS_SEEN = 10_000


class Nowhere(AwayLog):
    """A log that keeps nothing, for what it holds is no memory of the source."""

    def append(self, records: Iterable[NewRecord]) -> Sequence[object]:
        return [None for _ in records]


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


if __name__ == "__main__":
    measure(lambda name, value, unit, _goal: sys.stdout.write(f"{name}: {value:,.0f} {unit}\n"))
