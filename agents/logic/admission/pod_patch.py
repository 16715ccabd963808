"""The patch that gives a new pod what is recommended for it, in upstream's operations, order and texts.

Three things differ from upstream, all so that no pod is refused or harmed: what is absent is judged by the pod's spec, which is
what the patch is applied to; a `resources` object that holds something else (claims, say) is not emptied; and what the API server
would refuse is patched in part, or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.logic.admission import startup_boost
from agents.logic.admission.admission_report import AdmissionPatch, ContainerChange, Op
from agents.logic.admission.pod_spec import AdmittedPod
from agents.logic.admission.startup_boost import BoostError
from agents.logic.admission.vpa_manifest import AdmissionSettings, Vpa
from agents.logic.resources import pod_acceptance, resource_lists, target_caps
from agents.logic.resources.limit_ranges import Ranges
from agents.logic.resources.pod_acceptance import Rules
from agents.logic.resources.resource_lists import MEMORY, Advice, Container, Resources, UnscalableError, at
from agents.logic.resources.target_caps import Cap, CapReason
from schemas.exact_quantity import Quantity
from schemas.policies.vertical import ContainerMode, ControlledValues, UpdateMode
from schemas.well_known_labels import CPU_STARTUP_BOOST, OBSERVED_CONTAINERS

UPDATES = "vpaUpdates"
_ANNOTATIONS = "/metadata/annotations"

_BOUNDED = (CapReason.RANGE_LEAST, CapReason.RANGE_MOST)
_SETTLED = (*(by.value for by in _BOUNDED), pod_acceptance.PARTLY)
_TWO_MILLICORES = 2 * 10**6
_TWO_BYTES = 2 * 10**9
_MOST_ANNOTATED = 256 * 1024
"""Bytes of all annotations of an object together, names and texts; Kubernetes' TotalAnnotationSizeLimitB."""

FindRules = Callable[[bool], Rules]
"""The rules that the API server has for a namespace's pods; with quotas, where the pod is to ask for more."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The values to set for one container, and why."""

    requests: Resources
    limits: Resources
    caps: tuple[Cap, ...] = ()
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Resources with a recommendation that are left to HPAs."""
    base: Quantity | None = None
    held: tuple[str, ...] = ()
    """Why resources are not changed as wanted."""


def patch(
    pod: AdmittedPod, vpa: Vpa, ranges: Ranges, settings: AdmissionSettings, rules: FindRules | None = None
) -> AdmissionPatch:
    """The patch for a pod that this VPA governs. Where upstream fails, nothing is patched and the reason is given.

    Without `rules` there are no quotas.
    """
    find = rules or (lambda _: Rules(ranges))
    # An API server may ask twice about one pod (reinvocation), and the second answer must not raise amounts once more.
    again = _again(pod, vpa, find, settings)
    if again is not None:
        return again
    try:
        return _within_annotations(pod, _patch(pod, vpa, find, settings))
    except (BoostError, UnscalableError) as error:
        return AdmissionPatch(reason=str(error), failed=True)


def escaped(name: str) -> str:
    """A segment of a JSON pointer; RFC 6901."""
    return name.replace("~", "~0").replace("/", "~1")


def observed(pod: AdmittedPod) -> str:
    """The annotation that lists the containers that were there when the pod was admitted."""
    return ", ".join(container.name for container in pod.containers)


def _patch(pod: AdmittedPod, vpa: Vpa, rules: FindRules, settings: AdmissionSettings) -> AdmissionPatch:
    ops: list[Op] = [] if pod.annotations is not None else [_add(_ANNOTATIONS, {})]
    changes, updates = [], []
    wanted, boost_ops = _all_wanted(pod, vpa, rules(False).ranges, settings)  # noqa: FBT003  # a function's only argument
    for index, (part, boosting) in enumerate(zip(_accepted(pod, wanted, rules), boost_ops, strict=True)):
        if part is None:
            continue
        ops += boosting
        container_ops, words = _container_ops(index, pod, part)
        if container_ops or part.held:
            ops += container_ops
            updates.append(f"container {index}: {', '.join(words)}")
        changes.append(_change(index, pod.standing[index], part))
    if updates:
        ops.append(_annotate(UPDATES, _mark(vpa) + "; ".join(updates)))
    # Upstream's updater passes over containers that are not in this list, such as those that another webhook added later.
    ops.append(_annotate(OBSERVED_CONTAINERS, observed(pod)))
    return AdmissionPatch(tuple(ops), tuple(changes), left=tuple(sorted(vpa.left)))


def _all_wanted(
    pod: AdmittedPod, vpa: Vpa, ranges: Ranges, settings: AdmissionSettings
) -> tuple[list[_Wanted | None], list[list[Op]]]:
    """What is wanted for each container, and the operations that note its boost; None for one that is left alone."""
    capped = _capped(pod, vpa, ranges)
    advised: dict[str, Advice] = {}
    for advice in capped.advice:
        # Of several entries of one name the first counts, as in upstream's GetRecommendationForContainer.
        advised.setdefault(advice.container, advice)
    amounts: list[_Wanted | None] = []
    noted: list[list[Op]] = []
    for index, container in enumerate(pod.containers):
        caps, policy = capped.caps.get(container.name, ()), vpa.policy_of(container.name)
        wanted, ops = _wanted(pod.standing[index], advised.get(container.name), vpa, ranges, caps), list[Op]()
        off = settings.cpu_startup_boost and policy is not None and policy.mode == ContainerMode.OFF
        if settings.cpu_startup_boost and not off:
            wanted, ops = _boosted(container, wanted, vpa, settings)
        amounts.append(None if off else wanted)
        noted.append(ops)
    return amounts, noted


def _accepted(pod: AdmittedPod, wanted: Sequence[_Wanted | None], rules: FindRules) -> list[_Wanted | None]:
    """As much of it as the API server accepts."""
    whole = replace(pod.whole, resources=replace(pod.whole.resources, containers=pod.containers))
    amounts = [({}, {}) if part is None else (part.requests, part.limits) for part in wanted]
    accepted = pod_acceptance.accepted(whole, amounts, rules)
    parts = []
    for part, (requests, limits) in zip(wanted, accepted.amounts, strict=True):
        if part is not None:
            held = tuple(why for name, why in accepted.held.items() if name in part.requests or name in part.limits)
            part = replace(part, requests=requests, limits=limits, held=held)  # noqa: PLW2901  # the same part, with less
        parts.append(part)
    return parts


def _within_annotations(pod: AdmittedPod, made: AdmissionPatch) -> AdmissionPatch:
    """The patch, unless the pod's annotations would become longer than the API server takes."""
    texts = dict(pod.annotations or {})
    before = sum(map(_size, texts.items()))
    texts |= {_annotation(op): str(op["value"]) for op in made.ops if str(op["path"]).startswith(f"{_ANNOTATIONS}/")}
    size = sum(map(_size, texts.items()))
    # Annotations that are too long already are the API server's to judge; ours must not make them so.
    if size <= max(before, _MOST_ANNOTATED):
        return made
    return AdmissionPatch(reason=f"its annotations would be longer than {_MOST_ANNOTATED} bytes", failed=True)


def _size(annotation: tuple[str, str]) -> int:
    return sum(len(text.encode()) for text in annotation)


def _annotation(op: Op) -> str:
    """The name of the annotation that an operation sets."""
    return str(op["path"]).removeprefix(f"{_ANNOTATIONS}/").replace("~1", "/").replace("~0", "~")


def _capped(pod: AdmittedPod, vpa: Vpa, ranges: Ranges) -> target_caps.Capped:
    if vpa.advice is None or vpa.mode == UpdateMode.OFF:
        return target_caps.Capped((), {})
    return target_caps.cap(
        vpa.advice, pod.standing, [policy.rule for policy in vpa.policies or ()], ranges, upstream=vpa.upstream
    )


def _wanted(standing: Container, advice: Advice | None, vpa: Vpa, ranges: Ranges, caps: tuple[Cap, ...]) -> _Wanted:
    if advice is None:
        return _Wanted({}, {}, caps)
    target = {name: amount for name, amount in (advice.target or {}).items() if name not in vpa.left}
    limits: Resources = {}
    notes: tuple[str, ...] = ()
    if _values(standing.name, vpa) == ControlledValues.REQUESTS_AND_LIMITS:
        default = ranges.container.default if ranges.container else None
        scaled, notes = resource_lists.limits(
            limit=standing.limits, request=standing.requests, recommended=target, default=default
        )  # fmt: skip
        limits = scaled or {}
    left_to_hpas = tuple(sorted(set(advice.target or {}) & vpa.left))
    return _Wanted({name: amount for name, amount in target.items() if name}, limits, caps, notes, left_to_hpas)


def _values(container: str, vpa: Vpa) -> str:
    """Whether limits follow."""
    policy = vpa.policy_of(container)
    return ControlledValues.REQUESTS_AND_LIMITS if policy is None else policy.rule.values


def _boosted(container: Container, wanted: _Wanted, vpa: Vpa, settings: AdmissionSettings) -> tuple[_Wanted, list[Op]]:
    startup = vpa.startup_of(container.name)
    if startup is None:
        return wanted, []
    policy = vpa.policy_of(container.name)
    values = ControlledValues.REQUESTS_AND_LIMITS if policy is None else policy.rule.values
    boosted = startup_boost.boost(container, startup, values, (wanted.requests, wanted.limits), settings)
    annotation = _annotate(CPU_STARTUP_BOOST + container.name, startup_boost.original(container))
    return replace(wanted, requests=boosted.requests, limits=boosted.limits, base=boosted.base), [annotation]


def _container_ops(index: int, pod: AdmittedPod, wanted: _Wanted) -> tuple[list[Op], list[str]]:
    container, path = pod.containers[index], f"/spec/containers/{index}/resources"
    ops: list[Op] = []
    # "add" fails on a path whose parent is missing, and would empty an object that has claims.
    if container.requests is None and container.limits is None and not pod.given[index]:
        ops.append(_add(path, {}))
    words = [str(cap) for cap in wanted.caps if cap.by is not CapReason.POD_RANGE] + list(wanted.notes) + list(wanted.held)
    kinds = (("requests", "request", container.requests, wanted.requests), ("limits", "limit", container.limits, wanted.limits))
    for kind, word, present, amounts in kinds:
        if present is None and amounts:
            ops.append(_add(f"{path}/{kind}", {}))
        # Sorted, because Go's order of a map is random and a repeated review must give the same patch.
        for resource in sorted(amounts):
            ops.append(_add(f"{path}/{kind}/{escaped(resource)}", amounts[resource].text))
            words.append(f"{resource} {word}")
    words += [f"{resource} left to a HorizontalPodAutoscaler" for resource in wanted.left if resource not in wanted.requests]
    return ops, words


def _change(index: int, standing: Container, wanted: _Wanted) -> ContainerChange:
    return ContainerChange(
        index=index,
        container=standing.name,
        requests_before=standing.requests or {},
        requests=wanted.requests,
        limits_before=standing.limits or {},
        limits=wanted.limits,
        caps=wanted.caps,
        notes=wanted.notes,
        boost_base=wanted.base,
        held=wanted.held,
    )


def _again(pod: AdmittedPod, vpa: Vpa, rules: FindRules, settings: AdmissionSettings) -> AdmissionPatch | None:
    """The answer to a pod that was patched before and is as the patch left it; None for any other."""
    if pod.annotations is None or pod.annotations.get(OBSERVED_CONTAINERS) != observed(pod):
        return None
    # The boost has overwritten what it started from; the annotation still has it, so it is not boosted twice.
    before = tuple(_unboosted(container, pod.annotations) for container in pod.containers)
    standing = tuple(_unboosted(container, pod.annotations) for container in pod.standing)
    try:
        patched = _patch(replace(pod, containers=before, standing=standing), vpa, rules, settings)
    except (BoostError, UnscalableError):
        return None
    ranges = rules(False).ranges  # noqa: FBT003  # a function's only argument
    annotated = pod.annotations.get(UPDATES, "").split(_mark(vpa), 1)[-1].split("; ")
    # What a LimitRange allows depends on the former amounts, which the patch has overwritten, so a bounded amount is accepted.
    bounded = {part.partition(":")[0].strip(): part for part in annotated}
    settled = all(
        _stands(change, pod.containers[change.index], bounded.get(f"container {change.index}", ""), shared=bool(ranges.pod))
        for change in patched.containers
    )
    if not settled or not _annotated(patched.ops, pod.annotations, vpa):
        return None
    return AdmissionPatch(containers=patched.containers, reason="the pod is as the patch would leave it", left=patched.left)


def _unboosted(container: Container, annotations: Mapping[str, str]) -> Container:
    kept = annotations.get(CPU_STARTUP_BOOST + container.name)
    return container if kept is None else startup_boost.restored(container, kept)


def _annotated(ops: Sequence[Op], annotations: Mapping[str, str], vpa: Vpa) -> bool:
    """Whether the pod has all the annotations; the description of the updates may differ."""
    for op in ops:
        path, value = str(op["path"]), op["value"]
        if path == f"{_ANNOTATIONS}/{UPDATES}":
            if not annotations.get(UPDATES, "").startswith(_mark(vpa)):
                return False
        elif path.startswith(f"{_ANNOTATIONS}/") and annotations.get(_annotation(op)) != value:
            return False
    return True


def _stands(change: ContainerChange, container: Container, annotated: str, *, shared: bool) -> bool:
    """Whether a container has all wanted values. `annotated`: its part of the annotation; `shared`: the pod has a LimitRange."""
    bounded = {cap.resource for cap in change.caps if cap.by in _BOUNDED}
    for wanted, present in ((change.requests, container.requests), (change.limits, container.limits)):
        for name, amount in wanted.items():
            trusted = shared or name in bounded or any(f"{name} {by}" in annotated for by in _SETTLED)
            stands = at(present, name)
            if name not in (present or {}):
                if amount or not trusted:
                    return False
            # A zero that was set counts as nothing the next time, so nothing can be concluded from it.
            elif stands and not trusted and not _near(name, amount, stands):
                return False
    return True


def _near(resource: str, wanted: Quantity, present: Quantity) -> bool:
    """Within a hundredth of each other, or within what two roundings of small amounts come to."""
    far = abs(wanted.nano - present.nano)
    return far * 100 <= present.nano or far <= (_TWO_BYTES if resource == MEMORY else _TWO_MILLICORES)


def _mark(vpa: Vpa) -> str:
    return f"Pod resources updated by {vpa.name}: "


def _add(path: str, value: object) -> Op:
    # In RFC 6902 "add" also replaces a member that is there.
    return {"op": "add", "path": path, "value": value}


def _annotate(name: str, value: str) -> Op:
    return _add(f"{_ANNOTATIONS}/{escaped(name)}", value)
