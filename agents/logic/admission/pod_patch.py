"""The patch that gives a new pod what is recommended for it, in upstream's operations, order and texts.

Two things differ from upstream, both so that no pod is refused or harmed: what is absent is judged by the pod's spec, which is
what the patch is applied to, and a `resources` object that holds something else (claims, say) is not emptied. And a pod that is
already as the patch would leave it gets none, so that a webhook may be asked twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.logic.admission import startup_boost
from agents.logic.admission.admission_report import AdmissionPatch, ContainerChange, Op
from agents.logic.admission.admission_settings import AdmissionSettings
from agents.logic.admission.pod_spec import AdmittedPod
from agents.logic.admission.startup_boost import BoostError
from agents.logic.admission.vpa_manifest import Vpa
from agents.logic.resources import capping, limit_proportion
from agents.logic.resources.capping import Cap, CapReason
from agents.logic.resources.container_limit_range import Ranges
from agents.logic.resources.limit_proportion import UnscalableError
from agents.logic.resources.resource_lists import MEMORY, Advice, Container, Resources, at
from schemas.exact_quantity import Quantity
from schemas.policies.vertical import ContainerMode, ControlledValues, UpdateMode
from schemas.well_known_labels import CPU_STARTUP_BOOST, OBSERVED_CONTAINERS

UPDATES = "vpaUpdates"
_ANNOTATIONS = "/metadata/annotations"

_BOUNDED = (CapReason.RANGE_LEAST, CapReason.RANGE_MOST)
_TWO_MILLICORES = 2 * 10**6
_TWO_BYTES = 2 * 10**9


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


def patch(pod: AdmittedPod, vpa: Vpa, ranges: Ranges, settings: AdmissionSettings) -> AdmissionPatch:
    """The patch for a pod that this VPA governs. Where upstream fails, nothing is patched and the reason is given."""
    again = _again(pod, vpa, ranges, settings)
    if again is not None:
        return again
    try:
        return _patch(pod, vpa, ranges, settings)
    except (BoostError, UnscalableError) as error:
        return AdmissionPatch(reason=str(error), failed=True)


def escaped(name: str) -> str:
    """A segment of a JSON pointer; RFC 6901."""
    return name.replace("~", "~0").replace("/", "~1")


def observed(pod: AdmittedPod) -> str:
    """The annotation that lists the containers that were there when the pod was admitted."""
    return ", ".join(container.name for container in pod.containers)


def _patch(pod: AdmittedPod, vpa: Vpa, ranges: Ranges, settings: AdmissionSettings) -> AdmissionPatch:
    ops: list[Op] = [] if pod.annotations is not None else [_add(_ANNOTATIONS, {})]
    changes, updates = [], []
    capped = _capped(pod, vpa, ranges)
    advised: dict[str, Advice] = {}
    for advice in capped.advice:
        advised.setdefault(advice.container, advice)
    for index, container in enumerate(pod.containers):
        caps = capped.caps.get(container.name, ())
        wanted = _wanted(pod.standing[index], advised.get(container.name), vpa, ranges, caps)
        if settings.cpu_startup_boost:
            policy = vpa.policy_of(container.name)
            if policy is not None and policy.mode == ContainerMode.OFF:
                continue
            wanted, boost_ops = _boosted(container, wanted, vpa, settings)
            ops += boost_ops
        found, words = _container_ops(index, pod, wanted)
        if found:
            ops += found
            updates.append(f"container {index}: {', '.join(words)}")
        changes.append(_change(index, pod.standing[index], wanted))
    if updates:
        ops.append(_annotate(UPDATES, _mark(vpa) + "; ".join(updates)))
    ops.append(_annotate(OBSERVED_CONTAINERS, observed(pod)))
    return AdmissionPatch(tuple(ops), tuple(changes), left=tuple(sorted(vpa.left)))


def _capped(pod: AdmittedPod, vpa: Vpa, ranges: Ranges) -> capping.Capped:
    if vpa.advice is None or vpa.mode == UpdateMode.OFF:
        return capping.Capped((), {})
    return capping.cap(vpa.advice, pod.standing, [policy.rule for policy in vpa.policies or ()], ranges)


def _wanted(standing: Container, advice: Advice | None, vpa: Vpa, ranges: Ranges, caps: tuple[Cap, ...]) -> _Wanted:
    if advice is None:
        return _Wanted({}, {}, caps)
    target = {name: amount for name, amount in (advice.target or {}).items() if name not in vpa.left}
    limits: Resources = {}
    notes: tuple[str, ...] = ()
    if _values(standing.name, vpa) == ControlledValues.REQUESTS_AND_LIMITS:
        default = ranges.container.default if ranges.container else None
        found, notes = limit_proportion.limits(
            limit=standing.limits, request=standing.requests, recommended=target, default=default
        )  # fmt: skip
        limits = found or {}
    left = tuple(sorted(set(advice.target or {}) & vpa.left))
    return _Wanted({name: amount for name, amount in target.items() if name}, limits, caps, notes, left)


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
    found = startup_boost.boost(container, startup, values, (wanted.requests, wanted.limits), settings)
    kept = _annotate(CPU_STARTUP_BOOST + container.name, startup_boost.original(container))
    return replace(wanted, requests=found.requests, limits=found.limits, base=found.base), [kept]


def _container_ops(index: int, pod: AdmittedPod, wanted: _Wanted) -> tuple[list[Op], list[str]]:
    container, path = pod.containers[index], f"/spec/containers/{index}/resources"
    ops: list[Op] = []
    if container.requests is None and container.limits is None and not pod.given[index]:
        ops.append(_add(path, {}))
    words = [str(cap) for cap in wanted.caps if cap.by is not CapReason.POD_RANGE] + list(wanted.notes)
    kinds = (("requests", "request", container.requests, wanted.requests), ("limits", "limit", container.limits, wanted.limits))
    for kind, word, present, amounts in kinds:
        if present is None and amounts:
            ops.append(_add(f"{path}/{kind}", {}))
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
    )


def _again(pod: AdmittedPod, vpa: Vpa, ranges: Ranges, settings: AdmissionSettings) -> AdmissionPatch | None:
    """The answer to a pod that was patched before and is as the patch left it; None for any other.

    What a LimitRange allows depends on the container's former amounts, which the patch has overwritten, so a bounded amount is
    accepted as it is. For a boosted container the annotation has the former amounts.
    """
    if pod.annotations is None or pod.annotations.get(OBSERVED_CONTAINERS) != observed(pod):
        return None
    before = tuple(_unboosted(container, pod.annotations) for container in pod.containers)
    standing = tuple(_unboosted(container, pod.annotations) for container in pod.standing)
    try:
        found = _patch(replace(pod, containers=before, standing=standing), vpa, ranges, settings)
    except (BoostError, UnscalableError):
        return None
    annotated = pod.annotations.get(UPDATES, "").split(_mark(vpa), 1)[-1].split("; ")
    bounded = {part.partition(":")[0].strip(): part for part in annotated}
    settled = all(
        _stands(change, pod.containers[change.index], bounded.get(f"container {change.index}", ""), shared=ranges.pod is not None)
        for change in found.containers
    )
    if not settled or not _annotated(found.ops, pod.annotations, vpa):
        return None
    return AdmissionPatch(containers=found.containers, reason="the pod is as the patch would leave it", left=found.left)


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
        elif path.startswith(f"{_ANNOTATIONS}/"):
            name = path.removeprefix(f"{_ANNOTATIONS}/").replace("~1", "/").replace("~0", "~")
            if annotations.get(name) != value:
                return False
    return True


def _stands(change: ContainerChange, container: Container, annotated: str, *, shared: bool) -> bool:
    """Whether a container has all wanted values. `annotated`: its part of the annotation; `shared`: the pod has a LimitRange.

    A zero that was set counts as nothing the next time, so nothing can be concluded from it.
    """
    bounded = {cap.resource for cap in change.caps if cap.by in _BOUNDED}
    for wanted, present in ((change.requests, container.requests), (change.limits, container.limits)):
        for name, amount in wanted.items():
            trusted = shared or name in bounded or any(f"{name} {by.value}" in annotated for by in _BOUNDED)
            stands = at(present, name)
            if name not in (present or {}):
                if amount or not trusted:
                    return False
            elif stands and not trusted and not _near(name, amount, stands):
                return False
    return True


def _near(resource: str, one: Quantity, other: Quantity) -> bool:
    """Within a hundredth of each other, or within what two roundings of small amounts come to."""
    far = abs(one.nano - other.nano)
    return far * 100 <= other.nano or far <= (_TWO_BYTES if resource == MEMORY else _TWO_MILLICORES)


def _mark(vpa: Vpa) -> str:
    return f"Pod resources updated by {vpa.name}: "


def _add(path: str, value: object) -> Op:
    return {"op": "add", "path": path, "value": value}


def _annotate(name: str, value: str) -> Op:
    return _add(f"{_ANNOTATIONS}/{escaped(name)}", value)
