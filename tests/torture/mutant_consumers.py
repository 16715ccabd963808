"""What can be wrong with a consumer: each mutant must make the torture come out WRONG.

A mutant is made of classes that take the place of the product's in one consumer, so several of them live in one process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.pods import ResizeState
from schemas.ids import OutcomeId
from schemas.names import Amounts, PodName
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged
from streams.clients.cluster_port import Pod
from streams.clients.kube.cluster_client import KubernetesClient
from streams.clients.kube.quantities import merged
from streams.codec.event_codec import Codec
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.webhook.admission import Admission, unchanged
from streams.consumers.webhook.review_interface import Review
from streams.errors import BadRecord
from streams.log.log_port import Record

LATER = timedelta(days=6)
"""After a decision; a consumer refuses what may be carried out for more than a week."""


class ActsTwice(KubernetesClient):
    """Asks for everything twice, the second time for the pod that has come in the place of an evicted one."""

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        super().resize(pod, requests=requests, limits=limits)
        super().resize(replace(pod, version=""), requests=requests, limits=limits)

    def evict(self, pod: PodName) -> None:
        super().evict(pod)
        others: Sequence[Pod] = [p for p in self.pods() if p.pod.namespace == pod.namespace]
        for other in others[:1]:
            super().evict(other.pod)


class DoesNothing(KubernetesClient):
    """Says done and does nothing: it believes in what it asked for as if it had seen it, as a cache of own writes would."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._believed: dict[str, Pod | None] = {}

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Does not."""
        nothing = Amounts()
        self._believed[pod.pod.uid] = replace(
            pod,
            containers=tuple(
                replace(
                    container,
                    requests=merged(container.requests, requests.get(container.name, nothing)),
                    limits=merged(container.limits, limits.get(container.name, nothing)),
                )
                for container in pod.containers
            ),
            asked_requests={name: merged(own, requests.get(name, nothing)) for name, own in pod.asked_requests.items()},
            asked_limits={name: merged(own, limits.get(name, nothing)) for name, own in pod.asked_limits.items()},
            resize=ResizeState.NONE,
        )

    def evict(self, pod: PodName) -> None:
        """Does not."""
        self._believed[pod.uid] = None

    def pod(self, namespace: str, name: str) -> Pod | None:
        pod = super().pod(namespace, name)
        return pod if pod is None else self._believed.get(pod.pod.uid, pod)


class NothingExpires(Codec):
    """Takes plans for good that have expired."""

    def decode(self, record: Record) -> Any:
        event = super().decode(record)
        return (
            replace(event, expires=event.at + LATER, stale_after=None)
            if isinstance(event, ResizePlanned | EvictionPlanned)
            else event
        )


class NothingPauses(Codec):
    """Takes a pause for none."""

    def decode(self, record: Record) -> Any:
        event = super().decode(record)
        return replace(event, paused=False) if isinstance(event, ControlChanged) else event


class LosesPauses(Codec):
    """Does not see the record of a pause at all, so what held before goes on to hold."""

    def decode(self, record: Record) -> Any:
        event = super().decode(record)
        if isinstance(event, ControlChanged) and event.paused:
            raise BadRecord("lost on purpose")
        return event


class NeverLetsGo(HolderLease):
    """Believes that it holds the Lease for ever, once it held it."""

    _ever = False

    @property
    def held(self) -> bool:
        self._ever = self._ever or super().held
        return self._ever


class PatchesNothing(Admission):
    """The webhook says done and lets each pod through as it is."""

    def conclude(self, review: Review, seconds: float = 0.0) -> bytes:
        super().conclude(review, seconds)
        return unchanged(review.uid)


class SaysDoneAtOnce(Admission):
    """The webhook calls a patch done when it has answered, and does not wait until a pod is seen."""

    def _note(self, review: Review, objection: str | None) -> None:
        super()._note(review, objection)
        now = self._view.control.now
        if objection is None and review.admitted is not None and review.pod is not None and review.workload and now is not None:
            pod, decision = Subject.of_pod(review.workload, review.pod), review.decision
            identifier = str(OutcomeId(decision, Action.PATCH, review.pod.uid))
            said = ActionFinished(identifier, now, decision, Action.PATCH, Result.DONE, "answered", pod, admitted=review.admitted)
            self._outcomes.offer(said, ())

    def settle(self) -> None:
        """Nobody looks."""


class FailsOpen(Admission):
    """The webhook lets each pod through as it is, and says nothing."""

    def conclude(self, review: Review, seconds: float = 0.0) -> bytes:  # noqa: ARG002  # it does not count either
        return unchanged(review.uid, "it took too long")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the consumers of one cluster are made of; the product's own where nothing else is named."""

    client: type[KubernetesClient] = KubernetesClient
    codec: type[Codec] = Codec
    admission: type[Admission] = Admission
    lease: type[HolderLease] = HolderLease


MUTANTS: Mapping[str, Parts] = {
    "act-twice": Parts(client=ActsTwice),
    "do-nothing": Parts(client=DoesNothing),
    "patch-nothing": Parts(admission=PatchesNothing),
    "done-unseen": Parts(admission=SaysDoneAtOnce),
    "fail-open": Parts(admission=FailsOpen),
    "act-on-expired": Parts(codec=NothingExpires),
    "act-on-paused": Parts(codec=NothingPauses),
    "lose-a-pause": Parts(codec=LosesPauses),
    "keep-the-lease": Parts(lease=NeverLetsGo),
}
