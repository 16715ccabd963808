"""A simulated cluster that remembers what it accepted and what its new pods were given, for whoever judges that later."""

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from agents.processes.simulated_cluster import SimulatedAdmission
from schemas.names import Amounts, PodName
from schemas.outcomes import Action
from streams.clients.cluster_port import Patch, Pod
from streams.clients.kube.quantities import merged
from streams.consumers.webhook.admission import unchanged
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.kubelet import SimulatedPod
from streams.simulated.pod_admission import ApiRefusal
from tests.torture.admission_judge import NewPod
from tests.torture.judge import Act, Asked, as_asked

REFUSED = 7
"""Of so many new pods one is refused."""


class RecordingCluster(SimulatedCluster):
    """Remembers what it accepted, and what its new pods were given. `clock` gives seconds of real time."""

    acts: list[Act]
    deleted: dict[str, float]
    """When somebody else deleted a pod, by its uid."""
    created: list[NewPod]
    came: set[str]
    """Uids of pods that were there."""
    most_missing: float | None = None
    """The share of a deployment's pods that evictions may take away at one time; None where nobody guards that."""
    excess: tuple[str, ...] = ()
    """Evictions that took more."""
    clock: Callable[[], float] = staticmethod(time.time)
    deletes: int | None = None
    """Somebody deletes the oldest pod of the first deployment each time so many seconds of the cluster's time are over."""

    def reviewed_by(self, ask: Callable[[bytes], bytes | None]) -> None:
        """Ask a webhook for each new pod; None is no answer, and lets the pod through as it is."""
        self.acts, self.deleted, self.created, self.came = [], {}, [], set()

        def admit(pod: Pod) -> Patch:
            answers: list[bytes | None] = []

            def answer(body: bytes) -> bytes:
                answers.append(ask(body))
                return answers[0] or unchanged("")

            patch = SimulatedAdmission(answer)(pod)
            asked = {name: merged(amounts, patch.requests.get(name, Amounts())) for name, amounts in pod.asked_requests.items()}
            patched, answered = bool(patch.requests), answers != [None]
            about = pod.pod.uid, pod.workload.key, as_asked(asked, patch.limits), patched, answered, self.clock()
            self.created.append(NewPod(*about, warnings=_warnings(answers[0])))
            return patch

        self.admit = admit

    def _admit(self, pod: SimulatedPod) -> None:
        """As a quota that is nearly used up, refuse a pod now and then, after the webhook was asked."""
        super()._admit(pod)
        if len(self.created) % REFUSED == 0:
            raise ApiRefusal(HTTPStatus.FORBIDDEN, f"pod '{pod.name.name}' is forbidden: exceeded quota")

    def _step(self) -> None:
        super()._step()
        self.came.update(pod.name.uid for pod in self.pods_by_name.values())
        pods = [pod for pod in self.pods_by_name.values() if pod.deployment is self.deployments[0]]
        if self.deletes is not None and self._now % self.deletes == 0 and pods:
            oldest = min(pods, key=lambda pod: (pod.created, pod.name.name))
            self._lose(oldest)
            self.deleted[oldest.name.uid] = self.clock()

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts], version: str = "") -> None:
        with self.lock:
            super().resize(name, requests=requests, limits=limits, version=version)
            self._record(Action.RESIZE, name, as_asked(requests, limits))

    def evict(self, name: PodName) -> None:
        with self.lock:
            deployment = self._find(name).deployment
            super().evict(name)
            self._record(Action.EVICT, name, ())
            wanted, there = self.wanted(deployment), sum(pod.deployment is deployment for pod in self.pods_by_name.values())
            if self.most_missing is not None and wanted - there > max(1, int(wanted * self.most_missing)):
                says = f"when {name.name} was evicted, {wanted - there} of the {wanted} pods of {deployment.name} were missing"
                self.excess = (*self.excess, says)

    def _record(self, action: Action, name: PodName, asked: Asked) -> None:
        self.acts.append(Act(action, name.uid, asked, self.clock(), self.now))


def _warnings(answer: bytes | None) -> tuple[str, ...]:
    return tuple(json.loads(answer)["response"].get("warnings", ())) if answer else ()
