"""A scenario as a person writes it: nodes or groups of them, workloads with their load, a policy, and settings, in one YAML file.

```yaml
length: 2h
nodes: {count: 2, cpu: 16, memory: 32Gi}
workloads:
- name: shop/web
  replicas: 4
  load: {shape: diurnal, low: 0.05, high: 0.45, memory: 180, swing: 60}
  requests: {cpu: '2', memory: 2Gi}
  limits: {memory: 4Gi}
settings: {updates.warm_up: 600}
```

Instead of `nodes`, `groups` are Auto Scaling Groups, which Ullage lets grow and shrink:

```yaml
groups:
- {name: general, type: m5.2xlarge, least: 1, most: 8, desired: 4, boot: 90, price: 0.46}
```

A workload with a `scaling` gets an EHPA that scales it ahead of what its load will be; the load is then that of all its pods:

```yaml
- name: shop/orders
  replicas: 2
  load: {shape: rush, low: 0.5, high: 3.4, hour: 12, memory: 220}
  requests: {cpu: 500m, memory: 512Mi}
  scaling: {least: 2, most: 14, utilization: 60, ahead: 3600}
```

A pod may have init containers, which do their work for so many seconds before the others begin, or run beside them as sidecars.
And it may have amounts of its own (`spec.resources`), which hold for all its containers together. Its controller is of another
`kind` than Deployment if you say so:

```yaml
- name: shop/api
  kind: StatefulSet
  load: {shape: diurnal, low: 0.1, high: 0.4, memory: 180, swing: 60}
  requests: {cpu: 100m, memory: 128Mi}
  init:
  - {name: migrate, lasts: 30, load: {shape: leak, cores: 0.5, memory: 300, per_hour: 0}, requests: {memory: 512Mi}}
  - {name: proxy, sidecar: true, load: {shape: leak, cores: 0.1, memory: 60, per_hour: 0}, requests: {cpu: 50m, memory: 64Mi}}
  resources: {requests: {cpu: '1', memory: 1Gi}, limits: {memory: 2Gi}}
```

What refuses pods, as an API server does; each may come `after` a time and last for some:

```yaml
quotas:
- {name: shop/team, hard: {requests.cpu: '4', pods: 10}, lasts: 1h}
limit_ranges:
- {name: shop/bounds, type: Container, max: {memory: 2Gi}}
policies:
- {name: shop/no-giants.example.com, most: {memory: 1Gi}, after: 30m}
```

With `pod_level_resizes: false` pods with amounts of their own cannot be resized in place, as before Kubernetes 1.36.

Amounts are Kubernetes' quantities; the numbers of a load are cores and MiB. Everything by chance follows from `seed`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitType
from schemas.policies.vertical import UpdateMode
from schemas.units import Seconds
from streams import yaml_reader
from streams.clients.aws.ec2_instances import read_table
from streams.clients.kube import quantities
from streams.clients.kube.quantities import read_amounts
from streams.errors import BadInput
from streams.simulated import cluster_spec
from streams.simulated.cluster_spec import (
    ContainerTemplate,
    Shape,
    Shortage,
    SimulatedDeployment,
    SimulatedNode,
    SimulatedNodeGroup,
    SimulatedScaling,
)
from streams.simulated.pod_admission import FOREVER, PodAdmission, SimulatedLimitRange, SimulatedPolicy, SimulatedQuota

_SHAPES: Mapping[str, Callable[..., Shape]] = {
    "diurnal": cluster_spec.diurnal,
    "bursty": cluster_spec.bursty,
    "leak": cluster_spec.leak,
    "batch": cluster_spec.batch,
    "jvm": cluster_spec.jvm,
    "rush": cluster_spec.rush,
    "starter": cluster_spec.starter,
}
_DURATION = r"^\d{1,4}[mhd]$"
Quantities = dict[Literal["cpu", "memory"], str | int | float]
Quoted = Literal["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods", "count/pods"]
"""What a quota of a scenario may bound."""


class _Part(BaseModel):
    # a misspelt field is an error, where it would else be a default that nobody asked for
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScenarioNodes(_Part):
    """So many equal nodes."""

    count: Annotated[int, Field(ge=1, le=500)] = 4
    cpu: str | int = 16
    memory: str = "32Gi"


class ScenarioShortage(_Part):
    """When a shortage of machines begins and how long it lasts, as durations since the start."""

    after: Annotated[str, Field(pattern=_DURATION)]
    lasts: Annotated[str, Field(pattern=_DURATION)]


class ScenarioGroup(_Part):
    """A group of nodes of one type of instance. `boot`: seconds until a node is ready; `price`: of one for an hour."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]
    type: str
    zone: Annotated[str, Field(pattern=r"^[a-z]{2}-[a-z]+-[0-9][a-z]$")] = "eu-central-1a"
    least: Annotated[int, Field(ge=0, le=1000)] = 0
    most: Annotated[int, Field(ge=1, le=1000)] = 10
    desired: Annotated[int, Field(ge=0, le=1000)] = 1
    boot: Annotated[float, Field(ge=0, le=3600)] = 90.0
    price: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    shortages: Annotated[list[ScenarioShortage], Field(max_length=20)] = []

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.least <= self.desired <= self.most:
            msg = f"group '{self.name}' wants {self.desired} nodes, and may have {self.least} to {self.most}"
            raise ValueError(msg)
        if self.type not in read_table():
            msg = f"nobody knows the instance type '{self.type}' of group '{self.name}'"
            raise ValueError(msg)
        return self


class ScenarioScaling(_Part):
    """An EHPA that scales the workload: bounds, percent of the CPU requests to use, seconds to look ahead, days of known past."""

    least: Annotated[int, Field(ge=1, le=1000)] = 1
    most: Annotated[int, Field(ge=1, le=1000)] = 10
    utilization: Annotated[int, Field(ge=1, le=100)] = 60
    ahead: Annotated[int, Field(ge=60, le=86_400)] = 3600
    days: Annotated[int, Field(ge=1, le=15)] = 7


class ScenarioInitContainer(_Part):
    """A container that runs before the others for `lasts` seconds, or a sidecar, which runs beside them from then on."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]
    lasts: Annotated[int, Field(ge=0, le=86_400)] = 0
    sidecar: bool = False
    load: dict[str, str | float]
    requests: Quantities = {}
    limits: Quantities = {}


class ScenarioResources(_Part):
    """The amounts of a pod itself."""

    requests: Quantities = {}
    limits: Quantities = {}


class ScenarioWorkload(_Part):
    """A Deployment, `NAMESPACE/NAME`, or a controller of another `kind`, whose pods have one container beside those of `init`.

    `keep`: its disruption budget leaves so many ready. Pods of the kind `Pod` have no controller.

    With a `peak` it has so many pods at three in the afternoon, and `replicas` at three in the morning. With a `scaling` its
    load is that of all its pods together.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}/[a-z0-9-]{1,63}$")]
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]{0,62}$")] = "Deployment"
    replicas: Annotated[int, Field(ge=1, le=1000)] = 3
    keep: Annotated[int, Field(ge=0, le=1000)] = 0
    peak: Annotated[int, Field(ge=0, le=1000)] = 0
    scaling: ScenarioScaling | None = None
    load: dict[str, str | float]
    requests: Quantities
    limits: Quantities = {}
    init: Annotated[list[ScenarioInitContainer], Field(max_length=20)] = []
    resources: ScenarioResources = ScenarioResources()

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [self.name.partition("/")[2], *(container.name for container in self.init)]
        if len(set(names)) < len(names):
            msg = f"two containers of '{self.name}' have one name: {', '.join(names)}"
            raise ValueError(msg)
        return self


class _ScenarioRule(_Part):
    """A rule of a namespace, `NAMESPACE/NAME`. `after` and `lasts`: when it comes and for how long it is there."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}$")]
    after: Annotated[str, Field(pattern=_DURATION)] = "0m"
    lasts: Annotated[str, Field(pattern=_DURATION)] | None = None


class ScenarioQuota(_ScenarioRule):
    """A ResourceQuota, by the names that quotas have for amounts."""

    hard: dict[Quoted, str | int]


class ScenarioPolicy(_ScenarioRule):
    """A webhook of others that refuses new pods which request more than `most`; without it every new pod."""

    most: Quantities = {}


class ScenarioLimitRange(_Part):
    """A LimitRange with one entry."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}$")]
    type: LimitType = LimitType.CONTAINER
    min: Quantities = {}
    max: Quantities = {}
    default: Quantities = {}
    default_request: Quantities = {}
    ratio: dict[Literal["cpu", "memory"], Annotated[float, Field(ge=1)]] = {}


class Scenario(_Part):
    """The whole file."""

    length: Annotated[str, Field(pattern=_DURATION)] = "2h"
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    budget: Annotated[float, Field(ge=0, le=1)] = 0.1
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    nodes: ScenarioNodes | None = None
    groups: Annotated[list[ScenarioGroup], Field(max_length=50)] = []
    workloads: Annotated[list[ScenarioWorkload], Field(min_length=1, max_length=500)]
    settings: dict[str, str | int | float | bool] = {}
    quotas: Annotated[list[ScenarioQuota], Field(max_length=100)] = []
    limit_ranges: Annotated[list[ScenarioLimitRange], Field(max_length=100)] = []
    policies: Annotated[list[ScenarioPolicy], Field(max_length=100)] = []
    pod_level_resizes: bool = True


def read(path: Path) -> Scenario:
    """The scenario of a file. Raises BadInput that names the file, the place in it and the value."""
    try:
        return Scenario.model_validate(yaml_reader.read_file(path, f"the scenario '{path}'"))
    except ValidationError as error:
        # the first fault alone: a person mends one at a time
        first = error.errors(include_url=False, include_context=False)[0]
        if not first["loc"]:
            raise BadInput(f"the scenario '{path}' is no mapping such as `workloads: [...]`, but '{first['input']}'") from error
        place = ".".join(map(str, first["loc"]))
        raise BadInput(f"the scenario '{path}' makes no sense at {place}: {first['msg']}, not '{first['input']}'") from error


def nodes(scenario: Scenario) -> list[SimulatedNode]:
    """Its nodes: four if it names neither nodes nor groups. Raises BadInput for a quantity that is none."""
    if scenario.nodes is None and scenario.groups:
        return []
    equal = scenario.nodes or ScenarioNodes()
    size = _amounts({"cpu": equal.cpu, "memory": equal.memory}, "nodes")
    if size.cpu is None or size.memory is None:
        raise BadInput("nodes need cpu and memory")
    return [SimulatedNode(f"node-{number}", size.cpu, size.memory) for number in range(1, equal.count + 1)]


def groups(scenario: Scenario, start: datetime) -> list[SimulatedNodeGroup]:
    """Its groups of nodes."""
    return [_group(group, int(start.timestamp())) for group in scenario.groups]


def _group(group: ScenarioGroup, start: int) -> SimulatedNodeGroup:
    away = [(start + _seconds(shortage.after), _seconds(shortage.lasts)) for shortage in group.shortages]
    return SimulatedNodeGroup(
        group.name,
        group.type,
        least=group.least,
        most=group.most,
        desired=group.desired,
        zone=group.zone,
        boot=Seconds(group.boot),
        price=group.price,
        shortages=tuple(Shortage(begin, begin + lasts) for begin, lasts in away),
    )


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"m": 60, "h": 3600, "d": 86_400}[text[-1]]


def rules(scenario: Scenario, start: datetime) -> PodAdmission:
    """What refuses its pods. Raises BadInput for a quantity that is none."""
    begin = int(start.timestamp())
    quotas = [SimulatedQuota(*_named(quota), _hard(quota), *_time(quota, begin)) for quota in scenario.quotas]
    policies = [
        SimulatedPolicy(*_named(policy), _amounts(policy.most, policy.name), *_time(policy, begin))
        for policy in scenario.policies
    ]
    ranges = [SimulatedLimitRange(*_named(bounds), (_limit(bounds),)) for bounds in scenario.limit_ranges]
    return PodAdmission(quotas, ranges, policies, scenario.pod_level_resizes)


def _named(rule: _ScenarioRule | ScenarioLimitRange) -> tuple[str, str]:
    namespace, _, name = rule.name.partition("/")
    return namespace, name


def _time(rule: _ScenarioRule, start: int) -> tuple[int, int]:
    begin = start + _seconds(rule.after)
    return begin, FOREVER if rule.lasts is None else begin + _seconds(rule.lasts)


def _hard(quota: ScenarioQuota) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, value in quota.hard.items():
        try:
            exact = quantities.exact(str(value))
        except ValueError as error:
            raise BadInput(f"the quota '{quota.name}' makes no sense at {name}: {error}") from error
        # quotas count in whole millicores and bytes
        amounts[name] = int(exact * 1000) if name.endswith("cpu") else int(exact)
    return amounts


def _limit(bounds: ScenarioLimitRange) -> Limit:
    least, most, default, default_request = (
        _amounts(amounts, bounds.name) for amounts in (bounds.min, bounds.max, bounds.default, bounds.default_request)
    )
    return Limit(bounds.type, least, most, default, default_request, {str(name): ratio for name, ratio in bounds.ratio.items()})


def deployments(scenario: Scenario) -> list[SimulatedDeployment]:
    """Its workloads. Raises BadInput for a load or a quantity that is none."""
    return [_deployment(workload) for workload in scenario.workloads]


def _deployment(workload: ScenarioWorkload) -> SimulatedDeployment:
    namespace, _, name = workload.name.partition("/")
    init = tuple(_init_container(container, workload.name) for container in workload.init)
    requests, limits = _pair(workload.resources, workload.name)
    scaling = None if workload.scaling is None else SimulatedScaling(**workload.scaling.model_dump())
    return SimulatedDeployment(
        namespace,
        name,
        workload.replicas,
        (ContainerTemplate(name, _shape(workload.load, workload.name), *_pair(workload, workload.name)),),
        keep=workload.keep,
        peak=workload.peak,
        shared=scaling is not None,
        scaling=scaling,
        init=init,
        requests=requests,
        limits=limits,
        kind=workload.kind,
    )


def _init_container(container: ScenarioInitContainer, workload: str) -> ContainerTemplate:
    shape = _shape(container.load, f"{workload}, {container.name}")
    return ContainerTemplate(container.name, shape, *_pair(container, workload), container.lasts, container.sidecar)


def _pair(given: ScenarioWorkload | ScenarioInitContainer | ScenarioResources, where: str) -> tuple[Amounts, Amounts]:
    return _amounts(given.requests, where), _amounts(given.limits, where)


def _shape(load: Mapping[str, str | float], where: str) -> Shape:
    numbers = dict(load)
    kind = numbers.pop("shape", None)
    if kind not in _SHAPES:
        raise BadInput(f"the load of '{where}' has the shape '{kind}'; there are {', '.join(_SHAPES)}")
    try:
        return _SHAPES[str(kind)](**numbers)
    # a name that the shape does not have, which Python's own message says
    except TypeError as error:
        raise BadInput(f"the load of '{where}' does not fit to the shape '{kind}': {error}") from error


def _amounts(given: Quantities, where: str) -> Amounts:
    try:
        # YAML reads `cpu: 2` as a number
        return read_amounts({name: str(value) for name, value in given.items()})
    except ValueError as error:
        raise BadInput(f"the amounts of '{where}' make no sense: {error}") from error
