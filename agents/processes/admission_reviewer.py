"""Judges the webhook's reviews with the pure functions of `agents.logic.admission`, from the view of the log.

The pods of a rollout are alike: they get the same answer except for the review's uid, so answers are kept. An answer is a pure
function of the review and of look-ups in the cluster. So it is valid again if the parts of the review that admission examines are
the same bytes, and all the look-ups have the same results now.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agents.engine.turn import Recorded
from agents.logic.admission import admission_report, admission_review
from agents.logic.admission.admission_index import AdmissionIndex, AdmissionRules
from agents.logic.admission.admission_report import AdmissionAccount, ContainerChange, ReviewStatus
from agents.logic.admission.admission_review import Lookup, Reply, Unresolved
from agents.logic.admission.pod_spec import PodOwnerReference
from agents.logic.admission.vpa_manifest import AdmissionSettings, Vpa
from agents.logic.resources.limit_ranges import Ranges
from agents.logic.resources.resource_lists import Resources, in_words
from agents.logic.stage_rules import StageRules
from agents.logic.updates import update_settings
from agents.logic.updates.update_settings import SettingsCache, UpdaterProfile, UpdateRules
from schemas import plain_json
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.update_facts import ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.names import Place, PodName, Workload
from schemas.outcomes import AdmittedAmounts
from schemas.policies.control import StageRulesChanged
from schemas.policies.vertical import GuardOverrides
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.review_interface import Coming, Review, Topmost, UnknownOwner, nobody_knows
from streams.decision_view import LatestDecision

_MOST = 2_000
"""Answers that are kept; then all are forgotten."""
_LONGEST = 16 * 1024
"""Bytes of a pod's parts that are remembered."""
_UNREAD = frozenset({"uid", "object", "oldObject", "options", "userInfo"})
"""Parts of a request that no answer to a new pod depends on, or that are looked at one by one."""

_OF_PODS = ("resources", "overhead", "priorityClassName", "activeDeadlineSeconds", "affinity")
"""Parts of a pod's spec, besides its containers, by which it is judged."""


@dataclass(frozen=True, slots=True)
class Question:
    """A look-up for a review, and its result."""

    method: str
    arguments: tuple[str | PodOwnerReference, ...]
    answer: object


@dataclass(frozen=True, slots=True)
class RememberedReply:
    """A reply, what it rests on, and what it sets, in words and in amounts."""

    questions: tuple[Question, ...]
    reply: Reply
    changes: str
    admitted: AdmittedAmounts | None = None

    def holds(self, lookup: Lookup) -> bool:
        """Whether all look-ups have the same results as then."""
        return all(getattr(lookup, question.method)(*question.arguments) == question.answer for question in self.questions)


class ReviewMemo:
    """Replies by what they were given to. Several threads may use it."""

    def __init__(self) -> None:
        self._kept: dict[bytes, RememberedReply] = {}

    def get(self, key: bytes | None, lookup: Lookup) -> RememberedReply | None:
        """The reply to a review of this key, if it holds still."""
        remembered = None if key is None else self._kept.get(key)
        return remembered if remembered is not None and remembered.holds(lookup) else None

    def put(self, key: bytes | None, remembered: RememberedReply) -> None:
        """Remember it; a review without a key is not remembered."""
        if key is None:
            return
        if len(self._kept) >= _MOST:
            # all at once: a rollout soon fills it again, and no order has to be kept
            self._kept.clear()
        self._kept[key] = remembered


def key_of(review: bytes | Mapping[str, Any]) -> bytes | None:
    """The parts that admission examines in the review of a pod, as bytes; None for any other or unusual review."""
    # what cannot be decoded has no parts to compare
    if isinstance(review, bytes):
        return None
    try:
        request = review["request"]
        pod = request["object"]
        if request["resource"]["resource"] != "pods" or not isinstance(request["uid"], str):
            return None
        spec = pod["spec"]
        containers = [(c.get("name"), c.get("resources")) for c in spec["containers"]]
        init = [(c.get("name"), c.get("resources"), c.get("restartPolicy")) for c in spec.get("initContainers") or ()]
        whole = [spec.get(name) for name in _OF_PODS]
        about = {name: part for name, part in request.items() if name not in _UNREAD}
        key = plain_json.fitted(orjson.dumps((about, pod.get("metadata"), containers, init, whole, pod.get("status"))))
    except (KeyError, TypeError, AttributeError):
        return None
    return key if len(key) <= _LONGEST else None


_RESOURCES = {"pods": "Pod", "verticalpodautoscalers": "VPA"}
"""As upstream's metrics name them."""
_MOST_LISTED = 20
"""Containers whose changes the sentence lists."""


class AdmissionReviewer:
    """`latest` gives the newest recommendation of a workload key. `own` holds while the log has no rules of the updater.

    A new pod gets what the updater would change it to, so both obey the same rules.
    """

    def __init__(
        self,
        cluster: str,
        latest: Callable[[str], LatestDecision | None],
        settings: AdmissionSettings,
        own: UpdateRules | None = None,
    ) -> None:
        self._cluster, self._latest, self._settings = cluster, latest, settings
        self._lock = threading.Lock()
        self._rules = StageRules("updater", own or UpdateRules())
        self._guarded = SettingsCache(self._rules.settings)
        self._quotas: dict[str, dict[str, ResourceQuotaChanged]] = {}
        """Quotas by namespace and name."""
        self._index = AdmissionIndex(cluster, self._recommended, self._rules.settings.recommender, self._find_rules)
        self._memo = ReviewMemo()

    def _find_rules(self, guards: GuardOverrides) -> AdmissionRules:
        settings = self._guarded.of(guards)
        return AdmissionRules(settings.honor_hpas, settings.profile == UpdaterProfile.UPSTREAM)

    def apply(self, event: Event, place: Place) -> None:
        """Take in one event of `rules`, `policies` or `quota-changes`."""
        with self._lock:
            if isinstance(event, ResourceQuotaChanged | ResourceQuotaRemoved):
                self._apply_quota(event)
            elif isinstance(event, StageRulesChanged):
                self._follow_rules(Recorded(event, place))
            else:
                self._index.apply(event, place)

    def review(self, body: bytes, topmost: Topmost, coming: Coming = nobody_knows) -> Review:
        """Judge a review."""
        review = self._decoded(body)
        key, lookup = key_of(review), _Lookup(self, topmost, coming)
        remembered = self._memo.get(key, lookup)
        if remembered is None:
            # a new one: the first has the questions of the answer that no longer holds
            lookup = _Lookup(self, topmost, coming)
            remembered = self._answer(review, lookup)
            self._memo.put(key, remembered)
        uid = remembered.reply.account.uid if isinstance(review, bytes) else admission_review.uid_of(review)
        return _review(remembered, uid, lookup)

    def _answer(self, review: bytes | Mapping[str, Any], lookup: "_Lookup") -> RememberedReply:
        """A new reply. A pod whose amounts it changes gets a note, by which the change is found again in the world."""
        reply, annotations, admitted = admission_review.answer(review, lookup, self._settings), _annotations(review), None
        if reply.account.status is ReviewStatus.APPLIED and reply.account.resource == "pods":
            admitted = admission_report.offered(reply.account, lookup.controller, lookup.decision(), annotations)
        if admitted is not None:
            reply = admission_review.with_note(reply, admission_report.note(admitted), annotations)
        return RememberedReply(tuple(lookup.questions), reply, _changes(reply.account), admitted)

    def uid(self, body: bytes) -> str:
        """The uid of a review that could not be judged."""
        return admission_review.uid_of(body)

    def governs(self, namespace: str) -> bool:
        """Whether any policy could govern a pod of this namespace."""
        with self._lock:
            return self._index.governs(namespace)

    def vpas(self, workload: Workload) -> tuple[Sequence[Vpa], LatestDecision | None]:
        """The VPAs of a workload, and the recommendation that they carry."""
        with self._lock:
            latest = self._latest(workload.key)
            return self._index.vpas(workload.namespace, workload.kind, workload.name), latest

    def ranges(self, namespace: str) -> Ranges:
        """The LimitRanges of a namespace."""
        with self._lock:
            return self._index.ranges(namespace)

    def quotas(self, namespace: str) -> Sequence[ResourceQuotaChanged]:
        """The quotas of a namespace."""
        with self._lock:
            return tuple(self._quotas.get(namespace, {}).values())

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster

    def _apply_quota(self, event: ResourceQuotaChanged | ResourceQuotaRemoved) -> None:
        """A fact that cannot be read changes nothing."""
        if event.cluster != self._cluster or any(update_settings.quota_reasons(event)):
            return
        quotas = self._quotas.setdefault(event.namespace, {})
        if isinstance(event, ResourceQuotaChanged):
            quotas[event.name] = event
        else:
            quotas.pop(event.name, None)
        if not quotas:
            del self._quotas[event.namespace]

    def _follow_rules(self, recorded: Recorded) -> None:
        """Decide by the updater's rules as the log has them."""
        self._rules.ingest([recorded])
        settings = self._rules.settings
        self._guarded = SettingsCache(settings)
        self._index.serve(settings.recommender)

    def _decoded(self, body: bytes) -> bytes | Mapping[str, Any]:
        """The body, decoded fast; as it is if it cannot be, and then the answer says what is wrong with it."""
        if admission_review.excess(body, self._settings.largest) is not None:
            return body
        try:
            review = orjson.loads(body)
        except orjson.JSONDecodeError:
            return body
        return review if isinstance(review, dict) else body

    def _recommended(self, workload: str) -> RequestsRecommended | None:
        latest = self._latest(workload)
        return latest.decision if latest is not None and isinstance(latest.decision, RequestsRecommended) else None


class _Lookup:
    """The look-ups of one review and their results: the pod's workload, and its recommendation."""

    def __init__(self, reviewer: AdmissionReviewer, topmost: Topmost, coming: Coming) -> None:
        self._reviewer, self._topmost, self._coming = reviewer, topmost, coming
        self.workload: Workload | None = None
        self.latest: LatestDecision | None = None
        self.controller = ""
        self.questions: list[Question] = []

    def topmost(self, namespace: str, owner: PodOwnerReference) -> PodOwnerReference | Unresolved | None:
        """The pod's topmost controller; None where it has none."""
        self.controller = f"{owner.kind}/{owner.name}"
        answer: PodOwnerReference | Unresolved | None = owner
        # no request to the API server for a pod that no policy could govern: most namespaces have none
        if self._reviewer.governs(namespace):
            controller = self._topmost(ControllerKey(namespace, owner.kind, owner.name, owner.api_version))
            if isinstance(controller, UnknownOwner):
                answer = Unresolved(controller.why)
            else:
                answer = (
                    None if controller is None else PodOwnerReference(controller.kind, controller.name, controller.api_version)
                )
        self.questions.append(Question("topmost", (namespace, owner), answer))
        return answer

    def vpas(self, namespace: str, kind: str, name: str) -> Sequence[Vpa]:
        """From the index."""
        self.workload = Workload(self._reviewer.cluster, namespace, kind, name)
        answer, self.latest = self._reviewer.vpas(self.workload)
        self.questions.append(Question("vpas", (namespace, kind, name), answer))
        return answer

    def decision(self) -> str:
        """The id of the recommendation that the VPAs carry; empty without one. A pod's note follows from it."""
        answer = "" if self.latest is None else self.latest.decision.id
        self.questions.append(Question("decision", (), answer))
        return answer

    def ranges(self, namespace: str) -> Ranges:
        """From the index."""
        answer = self._reviewer.ranges(namespace)
        self.questions.append(Question("ranges", (namespace,), answer))
        return answer

    def quotas(self, namespace: str) -> Sequence[ResourceQuotaChanged]:
        """From the log."""
        answer = self._reviewer.quotas(namespace)
        self.questions.append(Question("quotas", (namespace,), answer))
        return answer

    def coming(self, namespace: str, owner: PodOwnerReference) -> int | None:
        """From the API server."""
        answer = self._coming(ControllerKey(namespace, owner.kind, owner.name, owner.api_version))
        self.questions.append(Question("coming", (namespace, owner), answer))
        return answer


def _review(remembered: RememberedReply, uid: str, lookup: _Lookup) -> Review:
    """The review as it was judged, under this uid and with the recommendation that counts now."""
    account, latest = remembered.reply.account, lookup.latest
    body, response = remembered.reply.review, remembered.reply.review["response"]
    # a remembered reply answers another review, and the API server refuses an answer with another uid
    if uid != account.uid and isinstance(response, dict):
        body = {**body, "response": {**response, "uid": uid}}
    acted = account.status is ReviewStatus.APPLIED and account.resource == "pods" and lookup.workload is not None
    return Review(
        body=orjson.dumps(body),
        uid=uid,
        status=account.status.value,
        resource=_RESOURCES.get(account.resource, "unknown"),
        reason=account.reason,
        dry_run=account.dry_run,
        changes=remembered.changes if acted else "",
        pod=PodName(account.namespace, account.name, account.object_uid) if acted else None,
        workload=lookup.workload if acted else None,
        decision=latest.decision.id if acted and latest is not None else "",
        cause=latest.place if acted and latest is not None else None,
        admitted=remembered.admitted if acted else None,
    )


def _annotations(review: bytes | Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of the pod under review; none where they cannot be read, and then the reply says so."""
    if isinstance(review, bytes):
        return {}
    try:
        annotations = review["request"]["object"]["metadata"].get("annotations")
    except (KeyError, TypeError, AttributeError):
        return {}
    return {name: text for name, text in annotations.items() if isinstance(text, str)} if isinstance(annotations, dict) else {}


def _changes(account: AdmissionAccount) -> str:
    """What the patch sets, in words; empty if it only sets annotations."""
    texts = [text for change in account.containers if (text := _change(change))]
    if len(texts) > _MOST_LISTED:
        texts[_MOST_LISTED:] = [f"and {len(texts) - _MOST_LISTED} containers more"]
    if texts and account.left:
        texts.append(f"{' and '.join(account.left)} is left to a HorizontalPodAutoscaler")
    return f"what VPA or policy '{account.vpa}' asks for: {'; '.join(texts)}" if texts else ""


def _change(change: ContainerChange) -> str:
    parts = [
        *_amounts("request", change.requests_before, change.requests),
        *_amounts("limit", change.limits_before, change.limits),
    ]
    notes = [str(cap) for cap in change.caps] + list(change.notes) + list(change.held)
    changes = ", ".join(parts or ["nothing"]) + (f" ({', '.join(notes)})" if notes else "")
    return f"container '{change.container}': {changes}" if parts or change.held else ""


def _amounts(kind: str, before: Resources, after: Resources) -> list[str]:
    texts = []
    for name, amount in sorted(after.items()):
        old = before.get(name) or amount
        text, former = in_words(name, amount.nano, old.nano)
        texts.append(f"{name} {kind} {text}" + (f" (was {former})" if old.nano != amount.nano else ""))
    return texts
