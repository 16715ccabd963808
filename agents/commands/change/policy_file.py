"""Policies and amounts as people write them: a YAML file, `cpu=250m,memory=512Mi`, one line. And back.

`ullage policy apply` reads what `ullage policy list` prints:

- target: demo/shop/*
  mode: InPlaceOrRecreate
  containers:
  - container: '*'
    min: {cpu: 50m, memory: 64Mi}
    max: {cpu: '2', memory: 4Gi}
  guards: {budget: 0.05, cool_down: 3600}
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agents.logic import stage_rules
from agents.logic.updates.update_settings import UpdateSettings
from schemas.names import Amounts
from schemas.policies.vertical import ContainerPolicy, GuardOverrides, Tuning, UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa_annotations import RISK_CPU, RISK_OOM
from schemas.times import EPOCH
from schemas.units import Bytes, Fraction
from streams import yaml_reader
from streams.clients.kube.quantities import read_amounts
from streams.errors import BadInput

_Quantities = dict[Literal["cpu", "memory"], str | int | float]


class _Entry(BaseModel):
    # a misspelt field must not pass for one that is not there
    model_config = ConfigDict(extra="forbid")
    container: str = "*"
    min: _Quantities = {}
    max: _Quantities = {}
    policy: Literal["adaptive", "built-in"] | None = None
    risk_cpu: float | None = Field(None, ge=RISK_CPU[0], le=RISK_CPU[1])
    risk_oom: float | None = Field(None, ge=RISK_OOM[0], le=RISK_OOM[1])


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid")
    target: str
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    containers: list[_Entry] = []
    guards: dict[str, bool | int | float | str] = {}
    patch_new_pods: bool = True


_NAMES = ("cpu", "memory")
_FILE = TypeAdapter(list[_Policy])


def read(file: Path) -> list[VerticalPolicyChanged]:
    """The policies of a file, without time and version. Raises BadInput that names the file, the place in it and the value."""
    tree = yaml_reader.read_file(file, f"the policy file '{file}'")
    if not tree:
        raise BadInput(f"the policy file '{file}' is empty: write a list of policies, as `ullage policy list` prints them")
    try:
        listed = _FILE.validate_python(tree)
    except ValidationError as error:
        raise BadInput(f"the policy file '{file}' {_first(error)}") from error
    # else the later of two would win in silence
    seen: set[str] = set()
    for policy in listed:
        if policy.target in seen:
            raise BadInput(f"the policy file '{file}' has two policies with the target '{policy.target}'")
        seen.add(policy.target)
    return [_policy(policy, f"{file} [{i}]") for i, policy in enumerate(listed)]


def _first(error: ValidationError) -> str:
    """The first problem, with its place and value."""
    first = error.errors(include_url=False, include_context=False)[0]
    if not first["loc"]:
        return f"is no list of policies, as `ullage policy list` prints them, but '{first['input']}'"
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    # YAML 1.1 has off, no and n for false, and VPA's mode is called Off
    if first["loc"][-1:] == ("mode",) and first["input"] is False:
        return f"makes no sense at {place}: YAML reads Off without quotes as false, so write mode: 'Off'"
    return f"makes no sense at {place}: {first['msg']}, not '{first['input']}'"


def _policy(policy: _Policy, where: str) -> VerticalPolicyChanged:
    entries = tuple(_entry(entry, f"{where}.containers[{i}]") for i, entry in enumerate(policy.containers))
    names = [entry.container for entry in entries]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise BadInput(f"{where}.containers has two entries for '{twice}'")
    guards = _guards(policy.guards, f"{where}.guards")
    return VerticalPolicyChanged(EPOCH, policy.target, "", policy.mode, entries, guards, policy.patch_new_pods)


def _guards(overrides: Mapping[str, bool | int | float | str], where: str) -> GuardOverrides:
    """A policy's overrides of the updater's guards, by the names of settings."""
    names = {field.name for field in fields(GuardOverrides)}
    for name in overrides:
        if name not in names:
            raise BadInput(f"{where} names '{name}'; there are {', '.join(sorted(names))}")
    # by the settings' own check, so that a policy's guard has the bounds that the setting has
    if (wrong := stage_rules.fault(UpdateSettings, overrides)) is not None:
        raise BadInput(f"{where}{wrong.removeprefix('settings')}")
    return GuardOverrides(**dict[str, Any](overrides))


def _entry(entry: _Entry, where: str) -> ContainerPolicy:
    least, most = ({str(name): str(amount) for name, amount in bound.items()} for bound in (entry.min, entry.max))
    risk_cpu = None if entry.risk_cpu is None else Fraction(entry.risk_cpu)
    return ContainerPolicy(
        entry.container,
        amounts(least, f"{where}.min"),
        amounts(most, f"{where}.max"),
        tuning=Tuning(risk_cpu=risk_cpu, risk_oom=entry.risk_oom),
        policy=entry.policy,
    )


def as_body(policy: VerticalPolicyChanged) -> dict[str, object]:
    """A policy in the form of the file."""
    body: dict[str, object] = {"target": policy.target, "mode": policy.update_mode.value}
    if policy.containers:
        body["containers"] = [_entry_body(entry) for entry in policy.containers]
    if policy.guards.said:
        body["guards"] = dict(policy.guards.said)
    if not policy.patch_new_pods:
        body["patch_new_pods"] = False
    return body


def _entry_body(entry: ContainerPolicy) -> dict[str, object]:
    bounds = {"min": quantities(entry.min_allowed), "max": quantities(entry.max_allowed)}
    decides = {"policy": entry.policy, "risk_cpu": entry.tuning.risk_cpu, "risk_oom": entry.tuning.risk_oom}
    # what says nothing stays out, so that the printed file has what somebody wrote
    body = {name: value for name, value in (*bounds.items(), *decides.items()) if value}
    return {"container": entry.container, **body}


def describe(policy: VerticalPolicyChanged) -> str:
    """On one line: `InPlaceOrRecreate; * min cpu 50m, memory 64Mi`."""
    parts = [policy.update_mode.value]
    for entry in policy.containers:
        for name, bound in (("min", entry.min_allowed), ("max", entry.max_allowed)):
            if bounds := ", ".join(f"{what} {size}" for what, size in quantities(bound).items()):
                parts.append(f"{entry.container} {name} {bounds}")
        for name, value in (("policy", entry.policy), ("risk_cpu", entry.tuning.risk_cpu), ("risk_oom", entry.tuning.risk_oom)):
            if value is not None:
                parts.append(f"{entry.container} {name} {value}")
    parts += [f"{name} {value}" for name, value in policy.guards.said.items()]
    parts += [] if policy.patch_new_pods else ["new pods are left as they are"]
    return "; ".join(parts)


def pairs(text: str, where: str) -> Mapping[str, str]:
    """`cpu=250m,memory=512Mi` as a mapping, empty for an empty text. Raises BadInput that names `where` the text stands."""
    quantities: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, quantity = part.partition("=")
        if not equals or name.strip() in quantities:
            raise BadInput(f"{where} '{text}' is not of the form cpu=250m,memory=512Mi")
        quantities[name.strip()] = quantity.strip()
    return quantities


def amounts(quantities: Mapping[str, str], where: str) -> Amounts:
    """The amounts, with Kubernetes' own reading of quantities. Raises BadInput that names the value and `where` it stands."""
    for name, quantity in quantities.items():
        if name not in _NAMES:
            raise BadInput(f"{where} names '{name}'; there are cpu and memory")
        _check(name, quantity, where)
    return read_amounts(quantities)


def quantities(amounts: Amounts) -> dict[str, str]:
    """Amounts as people write them: 250m, 512Mi."""
    body = {}
    if amounts.cpu is not None:
        body["cpu"] = f"{amounts.cpu * 1000:.10g}m"
    if amounts.memory is not None:
        body["memory"] = _memory(amounts.memory)
    return body


def _check(name: str, quantity: str, where: str) -> None:
    try:
        amounts = read_amounts({name: quantity})
    except ValueError:
        raise BadInput(f"{where} {name} '{quantity}' is no quantity: write 250m or 0.25 for CPU, 512Mi for memory") from None
    amount = getattr(amounts, name)
    if amount < 0:
        raise BadInput(f"{where} {name} '{quantity}' is negative")


def _memory(size: Bytes) -> str:
    for unit, scale in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    # exact, because `policy apply` must read back what `policy list` prints: no rounding to the next unit
    return str(size)
