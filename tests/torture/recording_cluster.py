"""A simulated cluster that remembers what it accepted and what its new pods were given, for whoever judges that later."""

import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException

from agents.processes.simulated_admission import SimulatedAdmission
from schemas.names import Amounts, PodName
from schemas.outcomes import Action
from streams.clients.cluster_port import Admission, Patch, Pod
from streams.clients.kube.quantities import merged
from streams.consumers.webhook.admission import unchanged
from streams.simulated.cluster import SimulatedCluster
from tests.torture.admission_judge import NewPod
from tests.torture.judge import Act, Asked, as_asked

REVIEW_WITHIN = 1.0
"""Seconds that the webhook has to answer."""


class RecordingCluster(SimulatedCluster):
    """Remembers what it accepted, and what its new pods were given."""

    acts: list[Act]
    created: list[NewPod]

    def reviewed_at(self, port: int) -> Admission:
        """Ask the webhook at this port."""
        webhook = Webhook(port)

        def admit(pod: Pod) -> Patch:
            webhook.answered = False
            patch = SimulatedAdmission(webhook)(pod)
            asked = {name: merged(amounts, patch.requests.get(name, Amounts())) for name, amounts in pod.asked_requests.items()}
            self.created.append(
                NewPod(pod.pod.uid, pod.workload.key, as_asked(asked), bool(patch.requests), webhook.answered, time.time())
            )
            return patch

        return admit

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        with self._lock:
            super().resize(name, requests=requests, limits=limits)
            self._record(Action.RESIZE, name, as_asked(requests))

    def evict(self, name: PodName) -> None:
        with self._lock:
            super().evict(name)
            self._record(Action.EVICT, name, ())

    def _record(self, action: Action, name: PodName, asked: Asked) -> None:
        self.acts.append(Act(action, name.uid, asked, time.time(), self.now))


class Webhook:
    """Asks at a port, and lets a pod through as it is when nobody answers."""

    def __init__(self, port: int) -> None:
        self.port, self.answered = port, False

    def answer(self, body: bytes) -> bytes:
        """The AdmissionReview's answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=REVIEW_WITHIN)
        try:
            connection.request("POST", "/", body)
            answer = connection.getresponse().read()
        except (OSError, HTTPException):
            return unchanged("")
        finally:
            connection.close()
        self.answered = True
        return answer
