"""Whether a pod fits into the quotas of its namespace, by the rules of the API server's admission.

Sources: CheckRequest in k8s.io/apiserver, pkg/admission/plugin/resourcequota/controller.go, and in Kubernetes
pkg/quota/v1/evaluator/core/pods.go. If it is not known whether a quota counts a pod, it is assumed to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.logic.resources import pod_resources
from agents.logic.resources.pod_resources import PodResources
from agents.logic.resources.resource_lists import CPU, MEMORY, Container, Resources, in_words
from schemas import exact_quantity
from schemas.facts.update_facts import QuotaScope, ResourceQuotaChanged

_ONE = 10**9
_PODS, _COUNT_PODS, _EPHEMERAL = "pods", "count/pods", "ephemeral-storage"
_DEMANDED = frozenset(f"{kind}{resource}" for kind in ("", "requests.", "limits.") for resource in (CPU, MEMORY))
"""Resources that every container must state if a quota bounds them."""


Rule = tuple[str, ...]
"""What tells one bound from another."""


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much a pod exceeds a bound, in billionths, and that as a clause."""

    by: int
    why: str


@dataclass(frozen=True, slots=True)
class QuotaPod:
    """A pod as quotas see it. None where it is not known.

    `terminating`: it has an activeDeadlineSeconds. `crosses`: an affinity of it names pods of other namespaces.
    """

    resources: PodResources
    priority_class: str | None = None
    terminating: bool | None = None
    crosses: bool | None = None


def objection(quotas: Iterable[ResourceQuotaChanged], pod: QuotaPod, freed: QuotaPod | None = None) -> str | None:
    """Why the API server would refuse a new pod now, as a clause; None if it would take it.

    `freed` is a pod whose use is over by then: one that is evicted frees what it uses only once it is gone.
    """
    exceeded = (excess for quota in _in_order(quotas) for excess in excesses(quota, pod, freed=freed))
    return next((excess.why for _, excess in exceeded), None)


def resize_objection(quotas: Iterable[ResourceQuotaChanged], pod: QuotaPod, before: QuotaPod) -> str | None:
    """Why the API server would refuse to change `before` into `pod` in place, as a clause; None if it would do it."""
    exceeded = (excess for quota in _in_order(quotas) for excess in excesses(quota, pod, resized=before))
    return next((excess.why for _, excess in exceeded), None)


def excesses(
    quota: ResourceQuotaChanged,
    pod: QuotaPod,
    *,
    times: int = 1,
    freed: QuotaPod | None = None,
    resized: QuotaPod | None = None,
) -> Iterator[tuple[Rule, Excess]]:
    """What `times` such pods exceed of a quota. `freed` is a pod that goes, `resized` the pod before a change in place."""
    if not _counts(quota, pod):
        return
    missing = _missing(quota, pod.resources)
    if missing is not None:
        yield (quota.name, "stated"), Excess(_ONE, missing)
        return
    # The quota controller has not counted a new quota yet, and until then CheckRequest refuses every pod.
    unknown = [name for name in quota.hard if name not in quota.used]
    if unknown:
        why = f"ResourceQuota '{quota.name}' does not say yet how much {unknown[0]} is in use"
        yield (quota.name, "known"), Excess(_ONE, why)
        return
    asked = usage(pod.resources if resized is None else _meanwhile(pod.resources, resized.resources))
    if resized is not None and _counts(quota, resized):
        before = usage(resized.resources)
        # Only what grows counts: a quota that is full, or more than full, hinders nobody from asking for less.
        asked = {name: max(0, amount - before.get(name, 0)) for name, amount in asked.items()}
    over = usage(freed.resources) if freed is not None and _counts(quota, freed) else {}
    for name, hard in quota.hard.items():
        if amount := asked.get(name, 0) * times:
            most, used = (exact_quantity.parse(text).nano for text in (hard, quota.used[name]))
            by = used - over.get(name, 0) + amount - most
            if by > 0:
                yield (quota.name, name), Excess(by, _exceeded(quota, name, amount, over.get(name, 0), times))


def most_pods(quota: ResourceQuotaChanged, pod: QuotaPod, reserved: Mapping[str, int]) -> int | None:
    """How many such pods a quota has room for beside what is `reserved`, in billionths; None if it bounds nothing of theirs."""
    if not _counts(quota, pod):
        return None
    asked = usage(pod.resources)
    free = {
        name: exact_quantity.parse(hard).nano - exact_quantity.parse(quota.used.get(name, "0")).nano - reserved.get(name, 0)
        for name, hard in quota.hard.items()
        if asked.get(name)
    }
    return min((max(amount, 0) // asked[name] for name, amount in free.items()), default=None)


def replaced(quotas: Iterable[ResourceQuotaChanged], pod: QuotaPod, freed: QuotaPod | None = None) -> list[ResourceQuotaChanged]:
    """The quotas as they will be once `pod` has come, in the place of `freed` if that is gone by then."""
    updated: list[ResourceQuotaChanged] = []
    for quota in quotas:
        used = {name: exact_quantity.parse(text).nano for name, text in quota.used.items()}
        for counted, sign in ((pod, 1),) if freed is None else ((pod, 1), (freed, -1)):
            for name, amount in usage(counted.resources).items() if _counts(quota, counted) else ():
                if name in used:
                    used[name] += sign * amount
        texts = {name: exact_quantity.of_nano(max(0, amount)).text for name, amount in used.items()}
        updated.append(replace(quota, used=texts))
    return updated


def usage(pod: PodResources) -> dict[str, int]:
    """What a pod counts for, by the quotas' names of resources. podComputeUsageHelper in evaluator/core/pods.go."""
    counted = {_PODS: _ONE, _COUNT_PODS: _ONE}
    for name, amount in pod_resources.requested(pod).items():
        if name in (CPU, MEMORY, _EPHEMERAL) or name.startswith("hugepages-"):
            # A quota may name a request with or without its prefix.
            counted[name] = amount
        counted[f"requests.{name}"] = amount
    counted |= {
        f"limits.{name}": amount
        for name, amount in pod_resources.limited(pod).items()
        if name in (CPU, MEMORY, _EPHEMERAL)
    }  # fmt: skip
    return counted


def is_best_effort(pod: PodResources) -> bool:
    """Whether neither the pod nor any container asks for CPU or memory. A zero asks for nothing.

    ComputePodQOS in Kubernetes' pkg/apis/core/v1/helper/qos: with amounts of the pod itself, only these count.
    """
    if pod.stated:
        return not (_asks(pod.requests) or _asks(pod.limits))
    return not any(_asks(container.requests) or _asks(container.limits) for container in pod.all_containers)


def _asks(amounts: Resources | None) -> bool:
    return any(amount.nano > 0 for name, amount in (amounts or {}).items() if name in (CPU, MEMORY))


def _in_order(quotas: Iterable[ResourceQuotaChanged]) -> list[ResourceQuotaChanged]:
    return sorted(quotas, key=lambda quota: quota.name)


def _meanwhile(after: PodResources, before: PodResources) -> PodResources:
    """What counts while a resize is under way. UseStatusResources in k8s.io/component-helpers, resource/helpers.go."""
    # Of each container the larger amounts, because what shrinks is free only when the kubelet is done.
    former = {container.name: container for container in before.containers}
    containers = tuple(
        Container(
            container.name,
            _largest(container.requests, former[container.name].requests) if container.name in former else container.requests,
            _largest(container.limits, former[container.name].limits) if container.name in former else container.limits,
        )
        for container in after.containers
    )
    return replace(after, containers=containers)


def _largest(after: Resources | None, before: Resources | None) -> Resources:
    largest = dict(after or {})
    for name, amount in (before or {}).items():
        if name not in largest or amount.nano > largest[name].nano:
            largest[name] = amount
    return largest


def _exceeded(quota: ResourceQuotaChanged, name: str, amount: int, freed: int, times: int) -> str:
    hard, used = (exact_quantity.parse(text).nano for text in (quota.hard[name], quota.used[name]))
    hard_text, used_text, text, freed_text = in_words(name, hard, used, amount, freed)
    wanted = text + (f" for {times} pods" if times > 1 else "")
    free = f", {freed_text} of it by the pod that goes" if freed else ""
    return f"ResourceQuota '{quota.name}' allows {name} {hard_text}, {used_text} is in use{free}, and {wanted} is asked for"


def _missing(quota: ResourceQuotaChanged, pod: PodResources) -> str | None:
    """What a container must state and does not. Source: Constraints."""
    # Amounts of the pod itself stand for those of all its containers.
    if pod.has_own:
        return None
    for name in sorted(quota.hard.keys() & _DEMANDED):
        kind, _, resource = name.rpartition(".")
        for container in pod.all_containers:
            stated = container.limits if kind == "limits" else container.requests
            if resource not in (stated or {}):
                what = "limit" if kind == "limits" else "request"
                return f"ResourceQuota '{quota.name}' demands a {resource} {what} of container '{container.name}'"
    return None


def _counts(quota: ResourceQuotaChanged, pod: QuotaPod) -> bool:
    """Whether a quota counts this pod at all."""
    return bool(quota.hard) and all(_meets(scope, pod) for scope in quota.scopes)


def _meets(scope: QuotaScope, pod: QuotaPod) -> bool:
    if scope.scope == "PriorityClass":
        return pod.priority_class is None or _selects(scope.operator, scope.values, pod.priority_class)
    best_effort = is_best_effort(pod.resources)
    outcomes: Mapping[str, bool] = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": pod.terminating is not False,
        "NotTerminating": pod.terminating is not True,
        "CrossNamespacePodAffinity": pod.crosses is not False,
    }
    # A scope of a newer Kubernetes: assume that the quota counts the pod, and evict nobody whose successor it may refuse.
    return outcomes.get(scope.scope, True)


def _selects(operator: str, values: Sequence[str], name: str) -> bool:
    """A label selector over the class's name; a pod without a class has no such label."""
    outcomes: Mapping[str, bool] = {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": bool(name) and name in values,
        "NotIn": not name or name not in values,
    }
    return outcomes.get(operator, True)
