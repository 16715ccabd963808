"""An AdmissionReview in, an AdmissionReview out: a pure function of the review and of the known state of the cluster.

A pod is never refused: a review that cannot be read, is too long or is not ours to judge is let through with a warning. Only a
VPA object that breaks the rules is denied. It follows upstream's pkg/admission-controller/logic/server.go, except that what is
answered with an HTTP error there is let through here. The oldest VPA governs of those that name the pod's topmost controller and
select the pod, as in upstream's pkg/admission-controller/resource/vpa/matcher.go and pkg/utils/vpa/api.go.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from agents.logic.admission import pod_patch, pod_spec, vpa_validation
from agents.logic.admission.admission_report import AdmissionAccount, Op, ReviewStatus
from agents.logic.admission.json_fields import UnreadableError, parts, text
from agents.logic.admission.pod_spec import AdmittedPod, PodOwnerReference
from agents.logic.admission.vpa_manifest import AdmissionSettings, Vpa
from agents.logic.resources.limit_ranges import Ranges
from agents.logic.resources.pod_acceptance import Rules
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.policies.vertical import UpdateMode


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The topmost controller, or the VPA, is unknown. `why` is a clause: "its owners form a circle"."""

    why: str


class Lookup(Protocol):
    """The known state of a cluster at the moment of a review."""

    def topmost(self, namespace: str, owner: PodOwnerReference) -> PodOwnerReference | Unresolved | None:
        """The topmost well-known or scalable controller above (or at) an owner; None when no such controller is there."""

    def vpas(self, namespace: str, kind: str, name: str) -> Sequence[Vpa]:
        """The VPAs whose target has this kind and name."""

    def ranges(self, namespace: str) -> Ranges:
        """The LimitRanges of a namespace."""

    def quotas(self, namespace: str) -> Sequence[ResourceQuotaChanged]:
        """The quotas of a namespace."""

    def coming(self, namespace: str, owner: PodOwnerReference) -> int | None:
        """How many pods an owner still wants, the one under review among them; None if that is not known."""


def governing(pod: AdmittedPod, lookup: Lookup) -> Vpa | Unresolved | str:
    """The VPA, or a clause that says why there is none; Unresolved if there may be one that cannot be found now."""
    if pod.owner is None:
        return "no controller owns the pod"
    top = lookup.topmost(pod.namespace, pod.owner)
    if top is None:
        return f"no controller that could be a target is above {pod.owner.kind} '{pod.owner.name}'"
    if isinstance(top, Unresolved):
        return Unresolved(f"the topmost controller above {pod.owner.kind} '{pod.owner.name}' is not known: {top.why}")
    candidates = lookup.vpas(pod.namespace, top.kind, top.name)
    vpa = strongest(pod, candidates)
    if vpa is None:
        return _nobody(top, candidates)
    # It governs although it does not patch: a younger VPA must not take its place.
    return vpa if vpa.patches else f"VPA '{vpa.name}' leaves new pods as they are"


def strongest(pod: AdmittedPod, candidates: Iterable[Vpa]) -> Vpa | None:
    """The oldest of those that select the pod and apply; among equally old ones the first by name."""
    fitting = [vpa for vpa in candidates if _applies(vpa) and _selects(vpa, pod)]
    return min(fitting, key=lambda vpa: (vpa.created, vpa.name), default=None)


def _applies(vpa: Vpa) -> bool:
    return vpa.mode != UpdateMode.OFF or vpa.boosts  # a boost is applied under Off, too, as upstream does


def _selects(vpa: Vpa, pod: AdmittedPod) -> bool:
    if vpa.selector is None or vpa.namespace != pod.namespace:
        return False
    return all(requirement.holds(pod.labels.get(requirement.key)) for requirement in vpa.selector)


def _nobody(top: PodOwnerReference, candidates: Sequence[Vpa]) -> str:
    if not candidates:
        return f"no VPA names {top.kind} '{top.name}'"
    if not any(_applies(vpa) for vpa in candidates):
        return f"the VPA of {top.kind} '{top.name}' is in mode Off"
    return f"no VPA of {top.kind} '{top.name}' selects the pod"


VERSION = "admission.k8s.io/v1"
MOST_VALUES = 100_000
"""Values of a review that is decoded. A pod of a hundred containers has five thousand."""
_UID = re.compile(rb'"uid"\s*:\s*"([0-9A-Za-z-]{1,64})"')
_UID_WITHIN = 4096
"""Bytes from the start of a review in which its uid is looked for when the rest cannot be read."""
MOST_ANNOTATIONS = 256 << 10
"""Bytes of all annotations of an object; an API server refuses more."""
_UNKNOWN = 1_000
"""Pods that an owner may still want of which that is not known."""
_LONGEST_WARNING = 256
"""Kubernetes cuts longer ones."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The review to send back, as JSON's own types, and what was done and why."""

    review: Mapping[str, object]
    account: AdmissionAccount


@dataclass(frozen=True, slots=True)
class _Request:
    """What a review asks. The manifest, and the one that it replaces, are not looked at yet."""

    about: AdmissionAccount
    group: str
    version: str
    kind: str
    subresource: str
    manifest: object
    before: object


def answer(review: bytes | str | Mapping[str, Any], lookup: Lookup, settings: AdmissionSettings) -> Reply:
    """Answer a review. Raises nothing, whatever it holds."""
    try:
        request = _request(_decoded(review, settings.largest))
    except UnreadableError as error:
        # An API server takes an answer without the review's uid for none, and then follows its failure policy.
        return _error(AdmissionAccount(ReviewStatus.ERROR, uid=uid_of(review), reason=f"the review cannot be read: {error}"))
    try:
        return _answered(request, lookup, settings)
    except UnreadableError as error:
        return _error(replace(request.about, status=ReviewStatus.ERROR, reason=f"the pod is left as it is: {error}"))


def with_note(reply: Reply, note: Op, annotations: Mapping[str, str]) -> Reply:
    """The reply with one annotation more; the pod is left as it is if an API server would refuse it with so many."""
    added = [op for op in (*reply.account.ops, note) if str(op["path"]).startswith("/metadata/annotations/")]
    sizes = [len(name) + len(value.encode()) for name, value in annotations.items()]
    sizes += [len(str(op["path"])) + len(str(op["value"]).encode()) for op in added]
    if sum(sizes) > MOST_ANNOTATIONS:
        reason = f"the pod is left as it is: its annotations would be longer than {MOST_ANNOTATIONS} bytes"
        return _error(replace(reply.account, status=ReviewStatus.ERROR, ops=(), containers=(), reason=reason))
    return _response(replace(reply.account, ops=(*reply.account.ops, note)))


def uid_of(review: bytes | str | Mapping[str, Any]) -> str:
    """The uid of a review that cannot be read as a whole: an answer without it would be invalid."""
    if isinstance(review, Mapping):
        request = review.get("request")
        uid = request.get("uid") if isinstance(request, Mapping) else None
        return uid if isinstance(uid, str) else ""
    start = review[:_UID_WITHIN]
    match = _UID.search(start.encode(errors="replace") if isinstance(start, str) else start)
    return match[1].decode() if match else ""


def _answered(request: _Request, lookup: Lookup, settings: AdmissionSettings) -> Reply:
    about = request.about
    match request.group, about.resource:
        case "", "pods" if request.subresource or about.operation not in ("", "CREATE"):
            return _response(replace(about, reason="only new pods are patched"))
        case "", "pods" if request.version != "v1":
            return _error(replace(about, status=ReviewStatus.ERROR, reason="only v1 Pods are supported"))
        case "", "pods":
            return _pod(request, lookup, settings)
        case "autoscaling.k8s.io", "verticalpodautoscalers":
            return _vpa(request, settings)
        case group, resource:
            # A wrong configuration of the webhook must not keep objects of others from being made.
            reason = f"resource '{resource}' of group '{group}' is not served here"
            return _error(replace(about, status=ReviewStatus.ERROR, reason=reason))


def _pod(request: _Request, lookup: Lookup, settings: AdmissionSettings) -> Reply:
    pod = pod_spec.read(request.manifest, request.about.namespace)
    about = replace(request.about, namespace=pod.namespace, name=pod.name, object_uid=pod.uid)
    vpa = governing(pod, lookup)
    if isinstance(vpa, Unresolved):
        return _error(replace(about, status=ReviewStatus.ERROR, reason=f"the pod is left as it is: {vpa.why}"))
    if not isinstance(vpa, Vpa):
        return _response(replace(about, reason=vpa))
    ranges = lookup.ranges(pod.namespace)
    patch = pod_patch.patch(pod, vpa, ranges, settings, lambda grows: _rules(pod, Rules(ranges), lookup, grows=grows))
    reason = f"the pod is left as it is: {patch.reason}" if patch.failed else patch.reason
    status = ReviewStatus.ERROR if patch.failed else ReviewStatus.APPLIED if patch.ops else ReviewStatus.SKIPPED
    about = replace(
        about, status=status, vpa=vpa.name, ops=patch.ops, containers=patch.containers, reason=reason, left=patch.left
    )
    return _error(about) if patch.failed else _response(about)


def _rules(pod: AdmittedPod, rules: Rules, lookup: Lookup, *, grows: bool) -> Rules:
    """The rules of the pod's namespace."""
    # A pod that asks for no more than before fits into each quota that it fitted into.
    quotas = lookup.quotas(pod.namespace) if grows else ()
    if not quotas or pod.owner is None:
        return replace(rules, quotas=quotas)
    # All pods that the owner still wants must find room with as much, or the first ones would take what the last ones need. It is
    # a request to the API server, so it is asked for only where there is a quota.
    coming = lookup.coming(pod.namespace, pod.owner)
    return replace(rules, quotas=quotas, coming=_UNKNOWN if coming is None else max(1, coming))


def _vpa(request: _Request, settings: AdmissionSettings) -> Reply:
    about = request.about
    if request.subresource or about.operation not in ("", "CREATE", "UPDATE"):
        return _response(replace(about, reason="only new and changed VPA objects are checked"))
    checked = vpa_validation.check(request.manifest, request.before if about.operation == "UPDATE" else None, settings)
    about = replace(about, vpa=checked.name or about.name)
    if checked.errors:
        status = vpa_validation.refusal(checked.errors, group=request.group, kind=request.kind, name=about.name)
        about = replace(about, status=ReviewStatus.DENIED, reason=str(status["message"]))
        return _response(about, checked.warnings, status)
    reason = "" if checked.ops else "the object needs no completion"
    status_word = ReviewStatus.APPLIED if checked.ops else ReviewStatus.SKIPPED
    return _response(replace(about, status=status_word, ops=checked.ops, reason=reason), checked.warnings)


def excess(review: bytes | str, largest: int) -> str | None:
    """Why a review is too large to be decoded, as a clause."""
    if len(review) > largest:
        return f"it has {len(review)} bytes, and {largest} are read at most"
    text = review.encode(errors="replace") if isinstance(review, str) else review
    # Commas and colons bound the number of values. Counting them takes a millisecond; decoding and checking as many values as fit
    # into the bytes takes seconds and memory.
    values = text.count(b",") + text.count(b":") + text.count(b"[")
    if values > MOST_VALUES:
        return f"it has more than {MOST_VALUES} values"
    return None


def _decoded(review: bytes | str | Mapping[str, Any], largest: int) -> Mapping[str, Any]:
    if isinstance(review, Mapping):
        return review
    if (why := excess(review, largest)) is not None:
        raise UnreadableError(why)
    try:
        document = json.loads(review, parse_constant=_no_number)
        json.dumps(document, ensure_ascii=False).encode()  # no record and no answer can carry a lone surrogate
    # json gives up at Python's own depth, which an attacker reaches with a few kilobytes of brackets.
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    except ValueError as error:
        raise UnreadableError(f"it is no JSON: {error}") from None
    if document is None:
        raise UnreadableError("it is null")
    return parts(document, "the review")


def _no_number(constant: str) -> float:
    raise UnreadableError(f"'{constant}' is no JSON")


def _request(review: Mapping[str, Any]) -> _Request:
    request = review.get("request")
    if not isinstance(request, Mapping):
        raise UnreadableError("it has no request")
    words = {name: text(request.get(name), name) for name in ("uid", "operation", "namespace", "name", "subResource")}
    resource, kind = parts(request.get("resource"), "resource"), parts(request.get("requestKind") or request.get("kind"), "kind")
    about = AdmissionAccount(
        status=ReviewStatus.SKIPPED,
        uid=words["uid"],
        resource=text(resource.get("resource"), "resource.resource"),
        operation=words["operation"],
        namespace=words["namespace"],
        name=words["name"],
        # A review keeps no state, so a dry run needs no other treatment than this mark.
        dry_run=request.get("dryRun") is True,
    )
    group, version = (text(resource.get(name), f"resource.{name}") for name in ("group", "version"))
    objects = request.get("object"), request.get("oldObject")
    return _Request(about, group, version, text(kind.get("kind"), "kind.kind"), words["subResource"], *objects)


def _error(account: AdmissionAccount) -> Reply:
    return _response(account, (f"ullage: {account.reason}"[:_LONGEST_WARNING],))


def _response(account: AdmissionAccount, warnings: Sequence[str] = (), status: Mapping[str, object] | None = None) -> Reply:
    response: dict[str, object] = {"uid": account.uid, "allowed": status is None}
    if status is not None:
        response["status"] = status
    if account.ops:
        # AdmissionReview v1 has the patch as bytes, which JSON carries in base64.
        response["patch"] = base64.b64encode(orjson.dumps(account.ops)).decode()
        response["patchType"] = "JSONPatch"
    if warnings:
        response["warnings"] = list(warnings)
    return Reply({"kind": "AdmissionReview", "apiVersion": VERSION, "response": response}, account)
