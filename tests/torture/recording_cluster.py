"""A simulated cluster that remembers what it accepted and what its new pods were given, for whoever judges that later."""

import time
from collections.abc import Callable, Mapping

from agents.processes.simulated_admission import SimulatedAdmission
from schemas.names import Amounts, PodName
from schemas.outcomes import Action
from streams.clients.cluster_port import Patch, Pod
from streams.clients.kube.quantities import merged
from streams.consumers.webhook.admission import unchanged
from streams.simulated.cluster import SimulatedCluster
from tests.torture.admission_judge import NewPod
from tests.torture.judge import Act, Asked, as_asked


class RecordingCluster(SimulatedCluster):
    """Remembers what it accepted, and what its new pods were given. `clock` gives seconds of real time."""

    acts: list[Act]
    created: list[NewPod]
    clock: Callable[[], float] = staticmethod(time.time)

    def reviewed_by(self, ask: Callable[[bytes], bytes | None]) -> None:
        """Ask a webhook for each new pod; None is no answer, and lets the pod through as it is."""
        self.acts, self.created = [], []

        def admit(pod: Pod) -> Patch:
            answers: list[bytes | None] = []

            def answer(body: bytes) -> bytes:
                answers.append(ask(body))
                return answers[0] or unchanged("")

            patch = SimulatedAdmission(answer)(pod)
            asked = {name: merged(amounts, patch.requests.get(name, Amounts())) for name, amounts in pod.asked_requests.items()}
            patched, answered = bool(patch.requests), answers != [None]
            self.created.append(
                NewPod(pod.pod.uid, pod.workload.key, as_asked(asked, patch.limits), patched, answered, self.clock())
            )
            return patch

        self.admit = admit

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts], version: str = "") -> None:
        with self.lock:
            super().resize(name, requests=requests, limits=limits, version=version)
            self._record(Action.RESIZE, name, as_asked(requests, limits))

    def evict(self, name: PodName) -> None:
        with self.lock:
            super().evict(name)
            self._record(Action.EVICT, name, ())

    def _record(self, action: Action, name: PodName, asked: Asked) -> None:
        self.acts.append(Act(action, name.uid, asked, self.clock(), self.now))
