"""A scenario as a person writes it: nodes, workloads with their load, a policy, and settings, in one small YAML file.

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

Amounts are Kubernetes' quantities; the numbers of a load are cores and MiB. Everything by chance follows from `seed`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.names import Amounts
from schemas.policies.vertical import UpdateMode
from streams.clients.kube.quantities import read_amounts
from streams.errors import BadInput
from streams.simulated import load_shapes
from streams.simulated.cluster_spec import ContainerTemplate, SimulatedDeployment, SimulatedNode
from streams.simulated.load_shapes import Shape

_SHAPES: Mapping[str, Callable[..., Shape]] = {
    "diurnal": load_shapes.diurnal,
    "bursty": load_shapes.bursty,
    "leak": load_shapes.leak,
    "batch": load_shapes.batch,
    "jvm": load_shapes.jvm,
}
Quantities = dict[Literal["cpu", "memory"], str | int | float]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScenarioNodes(_Part):
    """So many equal nodes."""

    count: Annotated[int, Field(ge=1, le=500)] = 4
    cpu: str | int = 16
    memory: str = "32Gi"


class ScenarioWorkload(_Part):
    """A Deployment, `NAMESPACE/NAME`, whose pods have one container. `keep`: its disruption budget leaves so many ready."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}/[a-z0-9-]{1,63}$")]
    replicas: Annotated[int, Field(ge=1, le=1000)] = 3
    keep: Annotated[int, Field(ge=0, le=1000)] = 0
    load: dict[str, str | float]
    requests: Quantities
    limits: Quantities = {}


class Scenario(_Part):
    """The whole file."""

    length: Annotated[str, Field(pattern=r"^\d{1,4}[mhd]$")] = "2h"
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    budget: Annotated[float, Field(ge=0, le=1)] = 0.1
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    nodes: ScenarioNodes = ScenarioNodes()
    workloads: Annotated[list[ScenarioWorkload], Field(min_length=1, max_length=500)]
    settings: dict[str, str | int | float | bool] = {}


def read(path: Path) -> Scenario:
    """The scenario of a file. Raises BadInput that names the file, the place in it and the value."""
    try:
        return Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInput(f"the scenario '{path}' cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"the scenario '{path}' is no YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "as a whole"
        raise BadInput(f"the scenario '{path}' makes no sense at {place}: {first['msg']}, not '{first['input']}'") from error


def nodes(scenario: Scenario) -> list[SimulatedNode]:
    """Its nodes. Raises BadInput for a quantity that is none."""
    size = _amounts({"cpu": scenario.nodes.cpu, "memory": scenario.nodes.memory}, "nodes")
    if size.cpu is None or size.memory is None:
        raise BadInput("nodes need cpu and memory")
    return [SimulatedNode(f"node-{number}", size.cpu, size.memory) for number in range(1, scenario.nodes.count + 1)]


def deployments(scenario: Scenario) -> list[SimulatedDeployment]:
    """Its workloads. Raises BadInput for a load or a quantity that is none."""
    return [_deployment(workload) for workload in scenario.workloads]


def _deployment(workload: ScenarioWorkload) -> SimulatedDeployment:
    namespace, _, name = workload.name.partition("/")
    requests, limits = (_amounts(each, workload.name) for each in (workload.requests, workload.limits))
    container = ContainerTemplate(name, _shape(workload), requests, limits)
    return SimulatedDeployment(namespace, name, workload.replicas, (container,), keep=workload.keep)


def _shape(workload: ScenarioWorkload) -> Shape:
    numbers = dict(workload.load)
    kind = numbers.pop("shape", None)
    if kind not in _SHAPES:
        raise BadInput(f"the load of '{workload.name}' has the shape '{kind}'; there are {', '.join(_SHAPES)}")
    try:
        return _SHAPES[str(kind)](**numbers)
    except TypeError as error:
        raise BadInput(f"the load of '{workload.name}' does not fit to the shape '{kind}': {error}") from error


def _amounts(quantities: Quantities, where: str) -> Amounts:
    try:
        return read_amounts({name: str(value) for name, value in quantities.items()})
    except ValueError as error:
        raise BadInput(f"the amounts of '{where}' make no sense: {error}") from error
