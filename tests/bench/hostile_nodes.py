"""`python -m tests.bench.hostile_nodes`: what a hostile or careless tenant may cost the scaler: the worst turn of a cluster.

Pods with affinity terms that no other pod has, thousands of disruption budgets, thousands of groups. The goal is one second. In
`make bench`. CPU time of this process.
"""

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from schemas.catalogue import Event
from schemas.facts.scheduled_pods import LabelDemand, LabelQuery, RequiredPodAffinity
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.well_known_labels import HOSTNAME
from streams.clients.kube.scheduling_objects import ClaimObject, StorageClassObject, VolumeObject
from streams.sources.kube.publish.pod_volumes import VolumeIndex
from tests.bench.node_scaling import Put, SteadyCluster, timed
from tests.support.cluster_events import START, when
from tests.support.kube_objects import decoded, meta
from tests.support.node_scene import CLUSTER, controller, group, pod, shape

GOAL = "<= 1"
LOOKS = 25
"""Turns of half a second after the last news: two of them look at all nodes."""


def worst(cluster: SteadyCluster, news: Iterable[list[Event]]) -> float:
    """The longest of the turns that take the news in, and of those that follow."""
    cluster.vouch()
    took = [timed(partial(cluster.turn, *events)) for events in news]
    return max(*took, *(timed(cluster.turn) for _ in range(LOOKS)))


def bound(number: int, terms: int, kind: str = "anti_affinity", *, broad: bool = False) -> list[Event]:
    """A waiting pod that keeps away from, or seeks, pods which nobody has seen, by terms of its own. `broad`: nearly all pods."""
    names = [f"w{number}-{term}" for term in range(terms)]
    queries = [LabelQuery({}, (LabelDemand("app", "NotIn", (name,)),)) if broad else LabelQuery({"app": name}) for name in names]
    mine_alone = tuple(RequiredPodAffinity(HOSTNAME, query) for query in queries)
    rules: dict[str, Any] = {kind: mine_alone}
    mine = shape(f"h{number}", cpu=100, labels={"app": f"w{number}-0"}, **rules)
    return [mine, controller(f"h{number}"), pod(f"h{number}", f"h{number}")]


def budget(number: int) -> Event:
    """A budget of which every second protects pods that there are."""
    label = f"s{number % 300}" if number % 2 else f"none-{number}"
    return PodDisruptionBudgetChanged(when(START), CLUSTER, "shop", f"b{number}", LabelQuery({"app": label}), 1, 1, 1, 1)


def affinity(pods: int, terms: int, kind: str = "anti_affinity", *, broad: bool = False) -> float:
    """Pods that come a hundred at a time to a hundred nodes."""
    cluster = SteadyCluster(100, 0)
    cluster.fill()
    bodies = partial(bound, terms=terms, kind=kind, broad=broad)
    batches = ([event for n in range(begin, begin + 100) for event in bodies(n)] for begin in range(0, pods, 100))
    return worst(cluster, batches)


def budgets(count: int) -> float:
    """Budgets that come all at once to 200 nodes with 3,000 pods."""
    cluster = SteadyCluster(200, 3000)
    cluster.fill()
    return worst(cluster, [[budget(number) for number in range(count)]])


def groups(count: int) -> float:
    """Groups of which each has labels of its own, and 300 pods of 300 shapes that wait for one of them."""
    cluster = SteadyCluster(200, 3000)
    cluster.fill()
    made: list[Event] = [group(f"g{number}", 0, 10, 0, zones=(f"z{number % 7}",)) for number in range(count)]
    waiting: list[Event] = [pod(f"w{number}", f"s{number % 300}") for number in range(300)]
    return worst(cluster, [made, waiting])


def volumes(count: int) -> float:
    """Volumes, each with its claim, that the kube source hears of one after the other."""
    index = VolumeIndex()
    body = {"metadata": {"name": "v", "uid": "v"}, "spec": {"storageClassName": "gp3"}, "status": {"phase": "Bound"}}
    for number in range(count):
        spec = {"storageClassName": "gp3", "volumeName": f"v{number}"}
        index.see(decoded(ClaimObject, {"metadata": meta(f"c{number}"), "spec": spec}))
    seen = [decoded(VolumeObject, {**body, "metadata": {"name": f"v{number}", "uid": "v"}}) for number in range(count)]
    return timed(lambda: [index.see(one) for one in seen])


def free_volumes(count: int) -> float:
    """Volumes that nobody has, each on a node of its own, one after the other, and as many claims that wait for any of them."""
    index = VolumeIndex()
    made = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    index.see(decoded(StorageClassObject, made))
    for number in range(count):
        index.see(decoded(ClaimObject, {"metadata": meta(f"c{number}"), "spec": {"storageClassName": "local"}}))
    seen = [decoded(VolumeObject, _free(number)) for number in range(count)]
    return timed(lambda: [*(index.see(one) for one in seen), index.take_reconsidered()])


def _free(number: int) -> dict[str, Any]:
    there = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"n{number}"]}]}]
    spec = {"storageClassName": "local", "nodeAffinity": {"required": {"nodeSelectorTerms": there}}}
    return {"metadata": {"name": f"v{number}", "uid": "v"}, "spec": spec, "status": {"phase": "Available"}}


def measure(put: Put) -> None:
    """All rows."""
    put("nodes: 10,000 free volumes and as many claims that wait for any: the source's time", free_volumes(10_000), "s", GOAL)
    put("nodes: 10,000 volumes with their claims: the source's time", volumes(10_000), "s", GOAL)
    put("nodes: 5,000 pods with 500 affinity terms of their own each: the worst turn", affinity(5000, 500), "s", GOAL)
    put("nodes: 5,000 pods with 2 affinity terms of their own each: the worst turn", affinity(5000, 2, "affinity"), "s", GOAL)
    keep_away = affinity(2000, 3, broad=True)
    put(
        "nodes: 2,000 pods that keep away from nearly all others by 3 terms of their own each: the worst turn",
        keep_away,
        "s",
        GOAL,
    )
    put("nodes: 10,000 disruption budgets: the worst turn", budgets(10_000), "s", GOAL)
    put("nodes: 2,000 groups: the worst turn", groups(2000), "s", GOAL)


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<100} {value:>12,.3f} {unit:<6} {goal}\n")
        sys.stdout.flush()

    measure(show)
