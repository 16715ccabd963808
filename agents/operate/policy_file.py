"""Policies as a YAML file, and back: what `ullage policy apply` reads is what `policy list` prints.

- target: demo/shop/*
  mode: InPlaceOrRecreate
  containers:
  - container: '*'
    min: {cpu: 50m, memory: 64Mi}
    max: {cpu: '2', memory: 4Gi}
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agents.operate import amounts as quantities
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from streams.errors import BadInput

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_Quantities = dict[Literal["cpu", "memory"], str | int | float]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    container: str = "*"
    min: _Quantities = {}
    max: _Quantities = {}


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid")
    target: str
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    containers: list[_Entry] = []


_FILE = TypeAdapter(list[_Policy])


def read(file: Path) -> list[VerticalPolicyChanged]:
    """The policies of a file, without time and version. Raises BadInput that names the file, the place in it and the value."""
    try:
        listed = _FILE.validate_python(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInput(f"the policy file '{file}' cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"the policy file '{file}' is no YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise BadInput(f"the policy file '{file}' {_first(error)}") from error
    seen: set[str] = set()
    for policy in listed:
        if policy.target in seen:
            raise BadInput(f"the policy file '{file}' has two policies with the target '{policy.target}'")
        seen.add(policy.target)
    return [_policy(policy, f"{file} [{i}]") for i, policy in enumerate(listed)]


def _first(error: ValidationError) -> str:
    """The first problem, with its place and value."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]) or "as a whole"
    return f"makes no sense at {place}: {first['msg']}, not '{first['input']}'"


def _policy(policy: _Policy, where: str) -> VerticalPolicyChanged:
    entries = tuple(_entry(entry, f"{where}.containers[{i}]") for i, entry in enumerate(policy.containers))
    return VerticalPolicyChanged(_NO_TIME, policy.target, "", policy.mode, entries)


def _entry(entry: _Entry, where: str) -> ContainerPolicy:
    least, most = ({str(name): str(amount) for name, amount in each.items()} for each in (entry.min, entry.max))
    return ContainerPolicy(entry.container, quantities.amounts(least, f"{where}.min"), quantities.amounts(most, f"{where}.max"))


def spelled(policy: VerticalPolicyChanged) -> dict[str, object]:
    """A policy as the file has it."""
    said: dict[str, object] = {"target": policy.target, "mode": policy.update_mode.value}
    if policy.containers:
        said["containers"] = [_spelled(entry) for entry in policy.containers]
    return said


def _spelled(entry: ContainerPolicy) -> dict[str, object]:
    bounds = {"min": quantities.spelled(entry.min_allowed), "max": quantities.spelled(entry.max_allowed)}
    return {"container": entry.container, **{name: amounts for name, amounts in bounds.items() if amounts}}


def in_words(policy: VerticalPolicyChanged) -> str:
    """On one line: `InPlaceOrRecreate; * min cpu 50m, memory 64Mi`."""
    parts = [policy.update_mode.value]
    for entry in policy.containers:
        for name, amounts in (("min", entry.min_allowed), ("max", entry.max_allowed)):
            if bounds := ", ".join(f"{what} {size}" for what, size in quantities.spelled(amounts).items()):
                parts.append(f"{entry.container} {name} {bounds}")
    return "; ".join(parts)
