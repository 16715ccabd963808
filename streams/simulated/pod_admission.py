"""What the API server of a simulated cluster refuses: amounts that make no sense, LimitRanges, quotas, and policies that say no.

The rules, their order and the words of the answers are the real ones, for CPU, memory and numbers of pods. Sources: Kubernetes'
pkg/apis/core/validation/validation.go, plugin/pkg/admission/limitranger/admission.go, and in k8s.io/apiserver
pkg/admission/plugin/resourcequota/controller.go. Amounts are whole millicores and bytes.

A ReplicaSet whose pod is refused tries again: one pod at a time, less and less often, until one comes; a StatefulSet makes its
pods in turn. Sources: Kubernetes' pkg/controller/replicaset/replica_set.go, pkg/controller/statefulset/stateful_set_control.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from schemas.names import Amounts, PodName
from schemas.pod_requests import CPU, MEMORY
from schemas.policies.limit_ranges import Limit, LimitType
from schemas.units import Bytes, Cores, Seconds
from streams.clients.kube.quantities import merged, settled
from streams.clients.kube.refusals import BUDGET_CAUSE
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.kubelet import SimulatedPod, total, whole


# not one of the clients' errors: the HTTP paths need its status code and its cause for programs
class ApiRefusal(Exception):
    """A call that the simulated cluster did not carry out."""

    def __init__(self, code: HTTPStatus, message: str, *, after: Seconds | None = None, cause: str = "") -> None:
        """`after`: when asking again makes sense, in seconds. `cause`: its name for programs."""
        super().__init__(message)
        self.code, self.message, self.after, self.cause = code, message, after, cause


def not_found(name: str) -> ApiRefusal:
    """No pod has this name."""
    return ApiRefusal(HTTPStatus.NOT_FOUND, f'pods "{name}" not found')


def other_uid(pod: PodName, uid: str) -> ApiRefusal:
    """A pod has this name, but it is another one."""
    # the words are the API server's own, as people search for them and clients show them
    message = f"the UID in the precondition ({pod.uid}) does not match the UID in record ({uid}); the object might be another one"
    return ApiRefusal(HTTPStatus.CONFLICT, f'operation cannot be fulfilled on pods "{pod.name}": {message}')


def changed_since(name: str) -> ApiRefusal:
    """The pod is no longer as the caller read it."""
    message = "the object has been modified; please apply your changes to the latest version and try again"
    return ApiRefusal(HTTPStatus.CONFLICT, f'operation cannot be fulfilled on pods "{name}": {message}')


def budget_used_up(name: str, keep: int) -> ApiRefusal:
    """An eviction that would leave too few ready pods."""
    message = f"cannot evict pod '{name}' as it would violate its disruption budget: {keep} pods must stay ready"
    # 10 s is what an API server says while its budget controller is behind; for a used-up budget a real one names no pause
    return ApiRefusal(HTTPStatus.TOO_MANY_REQUESTS, message, after=Seconds(10.0), cause=BUDGET_CAUSE)


ContainerAmounts = Mapping[str, tuple[Amounts, Amounts]]
"""Requests and limits, by container."""


@dataclass(frozen=True, slots=True)
class AskedAmounts:
    """All that a pod's spec asks for. `own`: requests and limits of the pod itself. `sidecars`: the names of those of `init`."""

    containers: ContainerAmounts
    init: ContainerAmounts
    sidecars: frozenset[str]
    own: tuple[Amounts, Amounts]

    @property
    def each(self) -> ContainerAmounts:
        """Of all containers, init containers among them."""
        return {**self.containers, **self.init}

    def total(self, kind: int, *, own: bool = True) -> Amounts:
        """The requests (0) or limits (1) of the whole pod, as far as they are stated; without its `own`, its containers'."""
        init = [(amounts[kind], name in self.sidecars) for name, amounts in self.init.items()]
        amounts = total((pair[kind] for pair in self.containers.values()), init, self.own[kind] if own else Amounts())
        cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
        return Amounts(None if cpu is None else Cores(cpu / 1000), None if memory is None else Bytes(memory))


def asked(pod: SimulatedPod, containers: ContainerAmounts | None = None) -> AskedAmounts:
    """What a pod asks for; with other amounts of its `containers`, what it would."""
    present, init = (
        {container.name: (container.asked_requests, container.asked_limits) for container in of_pod}
        for of_pod in (pod.containers, pod.init)
    )
    sidecars = frozenset(container.name for container in pod.init if container.sidecar)
    return AskedAmounts(containers or present, init, sidecars, (pod.requests, pod.limits))


FOREVER = 1 << 40


@dataclass(frozen=True, slots=True)
class SimulatedQuota:
    """A ResourceQuota that is there from `begin` to `end`, in seconds since the epoch. `hard`: millicores, bytes and pods."""

    namespace: str
    name: str
    hard: Mapping[str, int]
    begin: int = 0
    end: int = FOREVER


@dataclass(frozen=True, slots=True)
class SimulatedLimitRange:
    """A LimitRange."""

    namespace: str
    name: str
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True)
class SimulatedPolicy:
    """A webhook or a policy of others that refuses new pods from `begin` to `end`, if they request more than `most` in all."""

    namespace: str
    name: str
    most: Amounts = Amounts()
    begin: int = 0
    end: int = FOREVER


@dataclass(frozen=True, slots=True)
class PodAdmission:
    """All rules of a cluster for new pods and resizes.

    `resizes_pod_level`: whether pods with amounts of their own may be resized, as since Kubernetes 1.36.
    """

    quotas: Sequence[SimulatedQuota] = ()
    limit_ranges: Sequence[SimulatedLimitRange] = ()
    policies: Sequence[SimulatedPolicy] = ()
    resizes_pod_level: bool = True

    def give_defaults(self, pod: SimulatedPod) -> None:
        """What containers do not say is taken from their limits, then from LimitRanges. Source: pkg/apis/core/v1/defaults.go."""
        for container in pod.all_containers:
            container.asked_requests = merged(container.asked_limits, container.asked_requests)
        # before the LimitRanges, whose defaults may then be more than the pod itself asks for: defaultPodRequests
        if pod.limits != Amounts():
            pod.requests = merged(merged(pod.limits, asked(pod).total(0, own=False)), pod.requests)
        for container in pod.all_containers:
            for limit in self._limits(pod.name.namespace, LimitType.CONTAINER):
                default = merged(limit.most, limit.default_limits)
                requests = merged(merged(limit.least, default), limit.default_requests)
                container.asked_limits = merged(default, container.asked_limits)
                container.asked_requests = merged(requests, container.asked_requests)
        # no kubelet has seen the pod yet, so that what is asked for is what it has
        pod.apply_resize()

    def check_new(self, pod: SimulatedPod, others: Iterable[SimulatedPod], now: int) -> None:
        """Raises ApiRefusal for a pod that is not to be."""
        new = asked(pod)
        for name, amounts in new.each.items():
            check_amounts(f"container '{name}' of pod '{pod.name.name}'", *amounts)
        check_own(pod, new)
        self._check_limit_ranges(pod, new)
        requests = new.total(0)
        for policy in self.policies:
            if policy.namespace == pod.name.namespace and policy.begin <= now < policy.end and _exceeds(requests, policy.most):
                message = f'admission webhook "{policy.name}" denied the request: pods may not ask for so much'
                raise ApiRefusal(HTTPStatus.FORBIDDEN, message)
        for quota in self._quotas(pod.name.namespace, now):
            _demand(quota, pod, new)
            _spend(quota, pod.name.name, _use(new), used(quota, others))

    def check_resize(self, pod: SimulatedPod, resized: ContainerAmounts, all_pods: Iterable[SimulatedPod], now: int) -> None:
        """Raises ApiRefusal for a resize that is not to be."""
        before, after = asked(pod), asked(pod, resized)
        if service_class(before) != service_class(after):
            raise _invalid(pod, "spec: Pod QOS Class may not change as a result of resizing")
        if after.own != (Amounts(), Amounts()) and not self.resizes_pod_level:
            gate = "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            raise _invalid(pod, f"Forbidden: resize of pods with pod-level resources is forbidden when {gate}")
        check_own(pod, after)
        self._check_limit_ranges(pod, after)
        for quota in self._quotas(pod.name.namespace, now):
            # a quota counts only what a resize adds
            growth = {name: amount - _use(before).get(name, 0) for name, amount in _use(after).items()}
            _spend(quota, pod.name.name, {name: amount for name, amount in growth.items() if amount > 0}, used(quota, all_pods))

    def _quotas(self, namespace: str, now: int) -> Iterator[SimulatedQuota]:
        return (quota for quota in self.quotas if quota.namespace == namespace and quota.begin <= now < quota.end)

    def _limits(self, namespace: str, kind: LimitType) -> Iterator[Limit]:
        ranges = (limit_range for limit_range in self.limit_ranges if limit_range.namespace == namespace)
        return (limit for limit_range in ranges for limit in limit_range.limits if limit.type is kind)

    def _check_limit_ranges(self, pod: SimulatedPod, amounts: AskedAmounts) -> None:
        faults = [
            fault
            for limit in self._limits(pod.name.namespace, LimitType.CONTAINER)
            for requests, limits in amounts.each.values()
            for fault in _faults(limit, requests, limits)
        ]
        for limit in self._limits(pod.name.namespace, LimitType.POD):
            faults += _faults(limit, amounts.total(0), amounts.total(1))
        if faults:
            sentence = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise ApiRefusal(HTTPStatus.FORBIDDEN, f'pods "{pod.name.name}" is forbidden: {sentence}')


def used(quota: SimulatedQuota, pods: Iterable[SimulatedPod]) -> dict[str, int]:
    """How much of a quota is in use."""
    in_use = dict.fromkeys(quota.hard, 0)
    for pod in pods:
        if pod.name.namespace == quota.namespace:
            for name, amount in _use(asked(pod)).items():
                if name in in_use:
                    in_use[name] += amount
    return in_use


def service_class(amounts: AskedAmounts) -> str:
    """The pod's class of service. Source: ComputePodQOS in pkg/apis/core/v1/helper/qos."""
    # amounts of the pod itself count instead of those of its containers
    counted = [amounts.own] if amounts.own != (Amounts(), Amounts()) else amounts.each.values()
    # an amount of zero counts as not set
    sums = [{name: amount for name, amount in total(pair[kind] for pair in counted).items() if amount} for kind in (0, 1)]
    if not any(sums):
        return "BestEffort"
    return "Guaranteed" if all(limits.cpu and limits.memory for _, limits in counted) and sums[0] == sums[1] else "Burstable"


def patched(
    pod: SimulatedPod, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]
) -> dict[str, tuple[Amounts, Amounts]]:
    """All containers' amounts after a patch. ApiRefusal (422) for a container that is not there, or amounts without sense."""
    result = {container.name: (container.asked_requests, container.asked_limits) for container in pod.containers}
    for name in sorted(requests.keys() | limits.keys()):
        if name not in result:
            raise ApiRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"pod '{pod.name.name}' has no container '{name}'")
        before, capped = result[name]
        most = merged(capped, settled(limits.get(name, Amounts())))
        # a limit that is new is also the request where there is none, as in each object that an API server decodes
        after = merged(most, merged(before, settled(requests.get(name, Amounts())))), most
        check_amounts(f"container '{name}' of pod '{pod.name.name}'", *after)
        result[name] = after
    return result


def check_own(pod: SimulatedPod, amounts: AskedAmounts) -> None:
    """Raises ApiRefusal (422) where a pod's own amounts and its containers' do not fit: validatePodResourceConsistency."""
    requests, limits = amounts.own
    check_amounts(f"pod '{pod.name.name}'", requests, limits)
    together = amounts.total(0, own=False)
    for resource in ("cpu", "memory"):
        own, asked_for = getattr(requests, resource), getattr(together, resource)
        if own is not None and asked_for is not None and asked_for > own:
            reason = f"must be greater than or equal to aggregate container requests of {asked_for:g}"
            raise _invalid(pod, f"spec.resources.requests[{resource}]: {own:g}: {reason}")
        most = getattr(limits, resource)
        # only the containers': limits of init containers are not looked at
        for name, (_, of_container) in amounts.containers.items():
            limit = getattr(of_container, resource)
            if most is not None and limit is not None and limit > most:
                reason = f"must be less than or equal to pod limits of {most:g}"
                raise _invalid(pod, f"spec.resources.containers[{name}][{resource}].limits: {limit:g}: {reason}")


def _invalid(pod: SimulatedPod, why: str) -> ApiRefusal:
    return ApiRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, f'Pod "{pod.name.name}" is invalid: {why}')


def check_amounts(where: str, requests: Amounts, limits: Amounts) -> None:
    """Raises ApiRefusal (422) for a request above its limit, or an amount below zero."""
    for resource, wanted, limit in (("cpu", requests.cpu, limits.cpu), ("memory", requests.memory, limits.memory)):
        if (wanted or 0) < 0 or (limit or 0) < 0:
            raise ApiRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"{where}: {resource} must be greater than or equal to 0")
        if wanted is not None and limit is not None and wanted > limit:
            message = f"{where}: {resource} request {wanted:g} must be less than or equal to {resource} limit {limit:g}"
            raise ApiRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, message)


def _faults(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit.type.value
    for resource in ("cpu", "memory"):
        least, most, ratio = getattr(limit.least, resource), getattr(limit.most, resource), limit.ratios.get(resource)
        request, capped = getattr(requests, resource), getattr(limits, resource)
        if least is not None and (request is None or request < least):
            yield f"minimum {resource} usage per {kind} is {least:g}, {_said('request', request)}"
        if most is not None and (capped is None or capped > most):
            yield f"maximum {resource} usage per {kind} is {most:g}, {_said('limit', capped)}"
        elif most is not None and request is not None and request > most:
            yield f"maximum {resource} usage per {kind} is {most:g}, {_said('request', request)}"
        if ratio is not None and (not request or not capped or capped / request > ratio):
            yield f"{resource} max limit to request ratio per {kind} is {ratio:g}, and {request} and {capped} are given"


def _said(what: str, amount: float | None) -> str:
    return f"but no {what} is specified" if amount is None else f"but {what} is {amount:g}"


def _use(amounts: AskedAmounts) -> dict[str, int]:
    """What a pod counts for, by the quotas' names of resources."""
    requests, limits = whole(amounts.total(0)), whole(amounts.total(1))
    use = {"pods": 1, "count/pods": 1, **requests}
    use |= {f"requests.{name}": amount for name, amount in requests.items()}
    return use | {f"limits.{name}": amount for name, amount in limits.items()}


def _demand(quota: SimulatedQuota, pod: SimulatedPod, amounts: AskedAmounts) -> None:
    """Each container must state what a quota bounds, unless the pod has amounts of its own: Constraints of podEvaluator."""
    if amounts.own != (Amounts(), Amounts()):
        return
    for name in sorted(quota.hard):
        kind, _, resource = name.rpartition(".")
        if resource not in ("cpu", "memory"):
            continue
        for container, (requests, limits) in amounts.each.items():
            if getattr(limits if kind == "limits" else requests, resource) is None:
                message = f"failed quota: {quota.name}: must specify {name} for: {container}"
                raise ApiRefusal(HTTPStatus.FORBIDDEN, f'pods "{pod.name.name}" is forbidden: {message}')


def _spend(quota: SimulatedQuota, pod: str, more: Mapping[str, int], in_use: Mapping[str, int]) -> None:
    over = [name for name in sorted(more) if name in quota.hard and in_use[name] + more[name] > quota.hard[name]]
    if over:
        lists = [",".join(f"{name}={spelled(name, amounts[name])}" for name in over) for amounts in (more, in_use, quota.hard)]
        message = f"exceeded quota: {quota.name}, requested: {lists[0]}, used: {lists[1]}, limited: {lists[2]}"
        raise ApiRefusal(HTTPStatus.FORBIDDEN, f'pods "{pod}" is forbidden: {message}')


def spelled(name: str, amount: int) -> str:
    """An amount of a quota as Kubernetes writes it."""
    return f"{amount}m" if name.endswith("cpu") else str(amount)


def _exceeds(requests: Amounts, most: Amounts) -> bool:
    """Whether more is requested than a policy allows; one that names no amount refuses every pod."""
    if most == Amounts():
        return True
    pairs = (requests.cpu, most.cpu), (requests.memory, most.memory)
    return any(bound is not None and (request or 0) > bound for request, bound in pairs)


def ordinals(deployment: SimulatedDeployment, pods: Iterable[SimulatedPod], missing: int) -> list[int]:
    """The places of the next pods of a controller, of which so many are missing: all at once, those of a StatefulSet in turn.

    Its next pod comes once all before it are ready (OrderedReady). Places of others do not matter.
    """
    if deployment.kind != "StatefulSet":
        return [0] * missing
    ready = {pod.ordinal: pod.ready for pod in pods}
    place = next(number for number in range(len(ready) + 1) if number not in ready)
    return [place] if all(ready[number] for number in range(place)) else []


FIRST, MOST = 20, 1000
"""Seconds of the first pause that is longer than a step, and of the longest."""


@dataclass(slots=True)
class _Failure:
    message: str
    delay: int
    again: int


class CreationBackOff:
    """The ReplicaSets that cannot make pods, by namespace and name of their deployments."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], _Failure] = {}

    def may_try(self, deployment: tuple[str, str], now: int) -> bool:
        """Whether it is time to try."""
        failure = self._failures.get(deployment)
        return failure is None or now >= failure.again

    def failed(self, deployment: tuple[str, str], message: str, now: int) -> None:
        """A pod was refused."""
        before = self._failures.get(deployment)
        delay = FIRST if before is None else min(2 * before.delay, MOST)
        # the first answer stays, as in the condition `ReplicaFailure`
        self._failures[deployment] = _Failure(message if before is None else before.message, delay, now + delay)

    def made(self, deployment: tuple[str, str]) -> None:
        """All pods could be made."""
        self._failures.pop(deployment, None)

    def wake(self, deployment: tuple[str, str]) -> None:
        """Something of it changed, so it tries in the next step."""
        failure = self._failures.get(deployment)
        if failure is not None:
            failure.again = 0

    def message(self, deployment: tuple[str, str]) -> str:
        """What was answered when it could not make a pod; empty while it can."""
        failure = self._failures.get(deployment)
        return "" if failure is None else failure.message
