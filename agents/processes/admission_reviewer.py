"""Judges the webhook's reviews with the pure functions of `agents.logic.admission`, from what the view has of the log."""

import json
from collections.abc import Callable, Sequence

from agents.logic.admission import admission_review
from agents.logic.admission.admission_account import Account, ContainerChange, Status
from agents.logic.admission.admission_index import AdmissionIndex
from agents.logic.admission.admission_settings import AdmissionSettings
from agents.logic.admission.pod_spec import Owner
from agents.logic.admission.vpa_manifest import Vpa
from agents.logic.admission.vpa_matching import Unresolved
from agents.logic.resources.container_limit_range import Ranges
from agents.logic.resources.resource_lists import Resources
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.names import Place, PodName, Workload
from schemas.policies.vpa import DEFAULT_RECOMMENDER
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.review import Review, Topmost, UnknownOwner
from streams.decision_view import LatestDecision

_RESOURCES = {"pods": "Pod", "verticalpodautoscalers": "VPA"}
"""As upstream's metrics name them."""
_TOLD = 20
"""Containers whose changes are said in words."""


class AdmissionReviewer:
    """`latest` gives the newest recommendation of a workload key."""

    def __init__(
        self,
        cluster: str,
        latest: Callable[[str], LatestDecision | None],
        settings: AdmissionSettings,
        recommender: str = DEFAULT_RECOMMENDER,
    ) -> None:
        self._cluster, self._latest, self._settings = cluster, latest, settings
        self._index = AdmissionIndex(cluster, self._recommended, recommender)

    def apply(self, event: Event, place: Place) -> None:
        """Take in one event of `policies`."""
        self._index.apply(event, place)

    def review(self, body: bytes, topmost: Topmost) -> Review:
        """Judge a review."""
        lookup = _Lookup(self._index, topmost)
        reply = admission_review.answer(body, lookup, self._settings)
        account = reply.account
        review = Review(
            body=json.dumps(reply.review).encode(),
            uid=account.uid,
            status=account.status.value,
            resource=_RESOURCES.get(account.resource, "unknown"),
            reason=account.reason,
            dry_run=account.dry_run,
        )
        target = lookup.target
        if account.status is not Status.APPLIED or account.resource != "pods" or target is None:
            return review
        return self._with_decision(review, account, Workload(self._cluster, *target))

    def uid(self, body: bytes) -> str:
        """The uid of a review that could not be judged."""
        return admission_review.uid_of(body)

    def _with_decision(self, review: Review, account: Account, workload: Workload) -> Review:
        latest = self._latest(workload.key)
        return Review(
            body=review.body,
            uid=review.uid,
            status=review.status,
            resource=review.resource,
            reason=review.reason,
            dry_run=review.dry_run,
            changes=_changes(account),
            pod=PodName(account.namespace, account.name, account.object_uid),
            workload=workload,
            decision="" if latest is None else latest.decision.id,
            cause=None if latest is None else latest.place,
        )

    def _recommended(self, workload: str) -> RequestsRecommended | None:
        latest = self._latest(workload)
        return latest.decision if latest is not None and isinstance(latest.decision, RequestsRecommended) else None


class _Lookup:
    """What one review may ask. `target` is the last controller whose VPAs were asked for: the one that the pod belongs to."""

    def __init__(self, index: AdmissionIndex, topmost: Topmost) -> None:
        self._index, self._topmost = index, topmost
        self.target: tuple[str, str, str] | None = None

    def topmost(self, namespace: str, owner: Owner) -> Owner | Unresolved | None:
        """Asks nobody where no policy could govern."""
        if not self._index.governs(namespace):
            return owner
        found = self._topmost(ControllerKey(namespace, owner.kind, owner.name, owner.api_version))
        if isinstance(found, UnknownOwner):
            return Unresolved(found.why)
        return None if found is None else Owner(found.kind, found.name, found.api_version)

    def vpas(self, namespace: str, kind: str, name: str) -> Sequence[Vpa]:
        """From the index."""
        self.target = namespace, kind, name
        return self._index.vpas(namespace, kind, name)

    def ranges(self, namespace: str) -> Ranges:
        """From the index."""
        return self._index.ranges(namespace)


def _changes(account: Account) -> str:
    """What the patch sets, in words; empty when it sets annotations alone."""
    told = [text for change in account.containers[:_TOLD] if (text := _change(change))]
    more = len(account.containers) - _TOLD
    if more > 0:
        told.append(f"and {more} containers more")
    return f"a new pod was given what VPA or policy '{account.vpa}' asks for: {'; '.join(told)}" if told else ""


def _change(change: ContainerChange) -> str:
    parts = [
        *_amounts("request", change.requests_before, change.requests),
        *_amounts("limit", change.limits_before, change.limits),
    ]
    notes = [str(cap) for cap in change.caps] + list(change.notes)
    said = ", ".join(parts) + (f" ({', '.join(notes)})" if notes else "")
    return f"container '{change.container}': {said}" if parts else ""


def _amounts(kind: str, before: Resources, after: Resources) -> list[str]:
    said = []
    for name, amount in sorted(after.items()):
        old = before.get(name)
        was = "" if old is None or old.nano == amount.nano else f" (was {old.text})"
        said.append(f"{name} {kind} {amount.text}{was}")
    return said
