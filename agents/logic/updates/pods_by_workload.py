"""The pods of each workload, those killed for lack of memory, and the workloads of each controller; all follow from the pods."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from schemas.facts.pods import PodChanged
from schemas.names import Place, cluster_of


@dataclass(frozen=True, slots=True)
class PodRecord:
    """The newest fact about a pod, without its labels, and its place in the log."""

    fact: PodChanged
    place: Place


class PodsByWorkload:
    """Finds pods by workload. `of` has them by workload key and uid.

    `killed` has the uids of those of which a container's last run ended by an OOM kill, by workload key.
    """

    def __init__(self, pods: Iterable[PodRecord] = ()) -> None:
        self.of: dict[str, dict[str, PodRecord]] = {}
        self.killed: dict[str, set[str]] = {}
        self._controllers: dict[str, Counter[str]] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: PodRecord) -> None:
        """A pod that the index does not have yet."""
        workload = pod.fact.workload.key
        self.of.setdefault(workload, {})[pod.fact.pod.uid] = pod
        if any(seen.last_run is not None and seen.last_run.killed_for_memory for seen in pod.fact.containers):
            self.killed.setdefault(workload, set()).add(pod.fact.pod.uid)
        if pod.fact.controller:
            self._controllers.setdefault(controller_key(workload, pod.fact.controller), Counter())[workload] += 1

    def remove(self, pod: PodRecord) -> bool:
        """Take a pod out; whether it was the last one of its workload."""
        workload = pod.fact.workload.key
        pods = self.of[workload]
        del pods[pod.fact.pod.uid]
        if (killed := self.killed.get(workload)) is not None:
            killed.discard(pod.fact.pod.uid)
            if not killed:
                del self.killed[workload]
        if pod.fact.controller:
            key = controller_key(workload, pod.fact.controller)
            workloads = self._controllers[key]
            workloads[workload] -= 1
            if not workloads[workload]:
                del workloads[workload]
            if not workloads:
                del self._controllers[key]
        if not pods:
            del self.of[workload]
        return not pods

    def workloads_of(self, controller: str) -> Collection[str]:
        """The workloads whose pods a controller has, by `cluster/namespace/kind/name`."""
        return self._controllers.get(controller, {}).keys()


def controller_key(workload: str, controller: str) -> str:
    """The key of a direct controller (`kind/name`) of a workload's pods."""
    namespace = workload.split("/", 2)[1]
    return f"{cluster_of(workload)}/{namespace}/{controller}"


@dataclass(slots=True)
class ChangedWorkloads:
    """The workloads that changed since the last query: `keys`, or `all` by a policy that names many. It is no state."""

    keys: set[str] = field(default_factory=set)
    all: bool = True

    def clear(self) -> None:
        """The changes were read."""
        self.keys.clear()
        self.all = False
