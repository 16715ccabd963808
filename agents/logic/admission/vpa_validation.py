"""Completing and checking VPA objects: upstream's rules and messages, pkg/admission-controller/resource/vpa/validation.go.

It finds all errors of an object together. An object may keep fields of a feature that has been switched off since. Errors and the
status that refuses an object are worded as in apimachinery: pkg/util/validation/field/errors.go, and NewInvalid in
pkg/api/errors/errors.go.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from agents.logic.admission import vpa_manifest
from agents.logic.admission.admission_report import Op
from agents.logic.admission.json_fields import UnreadableError
from agents.logic.admission.vpa_manifest import (
    AdmissionSettings,
    ContainerPolicyManifest,
    CpuBoost,
    StartupBoostManifest,
    UpdatePolicyManifest,
    Vpa,
)
from agents.logic.resources.resource_lists import CPU, MEMORY, Resources
from schemas.policies.vertical import BoostKind, ContainerMode, ControlledValues, UpdateMode

_LONGEST_VALUE = 300
"""Characters of a wrong value that are shown."""


class Fault(Enum):
    """The kinds of faults, each with Kubernetes' code and text."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error. `value` is the offending one as it is to be shown; None where the fault shows none."""

    fault: Fault
    path: str
    detail: str = ""
    value: str | None = None

    @property
    def body(self) -> str:
        """The message without the path."""
        shown = self.fault.value[1] if self.value is None else f"{self.fault.value[1]}: {self.value}"
        return f"{shown}: {self.detail}" if self.detail else shown

    def __str__(self) -> str:
        """The message."""
        return f"{self.path}: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(Fault.REQUIRED, path, detail)


def invalid(path: str, value: float | str, detail: str) -> FieldError:
    """A value is out of its bounds."""
    return FieldError(Fault.INVALID, path, detail, _shown(value))


def not_supported(path: str, value: str, supported: Sequence[str]) -> FieldError:
    """A value is none of the known ones."""
    return FieldError(Fault.NOT_SUPPORTED, path, f"supported values: {', '.join(map(_quoted, supported))}", _quoted(value))


def forbidden(path: str, detail: str) -> FieldError:
    """A field may not be used as things are."""
    return FieldError(Fault.FORBIDDEN, path, detail)


def too_many(path: str, actual: int, most: int) -> FieldError:
    """A list is too long."""
    return FieldError(Fault.TOO_MANY, path, f"must have at most {most} {'item' if most == 1 else 'items'}", str(actual))


def internal(detail: str) -> FieldError:
    """The object as a whole cannot be read."""
    return FieldError(Fault.INTERNAL, ".", detail)


def refusal(errors: Sequence[FieldError], *, group: str, kind: str, name: str) -> dict[str, object]:
    """The status that says why an object is refused: 422, with all errors as causes."""
    # Kubernetes' aggregate says each message once.
    messages = list(dict.fromkeys(map(str, errors)))
    # Only several messages get brackets, in Kubernetes' own aggregate as here.
    listed = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = [{"reason": error.fault.value[0], "message": error.body, "field": error.path} for error in errors]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{f'{kind}.{group}' if group else kind} {_quoted(name)} is invalid: {listed}",
        "reason": "Invalid",
        "details": {field: value for field, value in details.items() if value},
        "code": 422,
    }


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return str(int(value)) if value == int(value) else repr(value)


def _quoted(value: str) -> str:
    return json.dumps(value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…", ensure_ascii=False)


MODES = ("InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate")
"""The update modes that are to be used; Auto is still taken."""
_SCALING = ("Auto", "Off")
_BOOSTS = ("Factor", "Quantity")
_RESOURCES = (CPU, MEMORY)
_MOST_SAID = 100
"""Errors, and warnings, of one object that are said."""


@dataclass(frozen=True, slots=True)
class CheckedVpa:
    """The result for an object. With errors it must be refused; else `ops` complete it."""

    ops: tuple[Op, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Allowed:
    """The features that an object may use: those that are switched on, and those that it had before."""

    boost: bool
    tuning: bool
    in_place: bool
    resources: frozenset[str]


def check(manifest: object, before: object, settings: AdmissionSettings) -> CheckedVpa:
    """Check a manifest; `before` is what it replaces, None for a new one."""
    try:
        vpa = vpa_manifest.read(manifest)
    except UnreadableError as error:
        return CheckedVpa(errors=(internal(str(error)),))
    allowed = _allowed(_readable(before), settings)
    # An object of a thousand policies may have thousands of errors, and nobody reads more than the first ones.
    errors = tuple(islice(_spec(vpa, allowed), _MOST_SAID))
    ops: tuple[Op, ...] = ()
    if vpa.update is None and not errors:
        ops = ({"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": UpdateMode.RECREATE.value}},)
    return CheckedVpa(ops, tuple(islice(_warnings(vpa, allowed), _MOST_SAID)), errors, vpa.name)


def _readable(before: object) -> Vpa:
    """What is replaced; an empty object where that cannot be read."""
    try:
        return vpa_manifest.read(before)
    except UnreadableError:  # an object that was stored before there was this check must not keep anybody from mending it
        return vpa_manifest.read(None)


def _allowed(before: Vpa, settings: AdmissionSettings) -> _Allowed:
    policies = before.policies or ()
    boosted = before.startup is not None and before.startup.cpu is not None
    tuned = before.update is not None and before.update.evict_after_oom is not None
    return _Allowed(
        boost=settings.cpu_startup_boost or boosted or any(policy.startup is not None for policy in policies),
        tuning=settings.per_vpa_config or tuned or any(_tuned(policy) for policy in policies),
        in_place=settings.in_place or (before.update is not None and before.update.mode == UpdateMode.IN_PLACE),
        resources=frozenset(name for policy in policies for name in policy.resources or ()),
    )


def _tuned(policy: ContainerPolicyManifest) -> bool:
    return any(field is not None for field in (policy.oom_ratio, policy.oom_minimum, policy.window_seconds, policy.windows))


def _warnings(vpa: Vpa, allowed: _Allowed) -> Iterator[str]:
    if vpa.update is not None and vpa.update.mode == UpdateMode.AUTO:
        yield (
            'spec.updatePolicy: "Auto" mode is deprecated and will be removed in a future API version. Use explicit update modes '
            f"like: [{' '.join(MODES)}]. See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
        )
    for i, policy in enumerate(vpa.policies or ()):
        for j, name in enumerate(policy.resources or ()):
            if name not in _RESOURCES and name in allowed.resources:
                yield (
                    f'spec.resourcePolicy.containerPolicies[{i}].controlledResources[{j}]: unsupported value "{name}" is allowed '
                    'only because it is present in the existing VPA object; supported values: "cpu", "memory"'
                )


def _spec(vpa: Vpa, allowed: _Allowed) -> Iterator[FieldError]:
    if vpa.update is not None:
        yield from _update(vpa.update, "spec.updatePolicy", allowed)
    for i, policy in enumerate(vpa.policies or ()):
        yield from _policy(policy, f"spec.resourcePolicy.containerPolicies[{i}]", allowed)
    if vpa.startup is not None:
        yield from _startup(vpa.startup, "spec.startupBoost", allowed)
    if vpa.recommenders > 1:
        yield too_many("spec.recommenders", vpa.recommenders, 1)


def _update(update: UpdatePolicyManifest, path: str, allowed: _Allowed) -> Iterator[FieldError]:
    mode = update.mode
    if mode is None:
        yield required(f"{path}.updateMode", "updateMode is required if UpdatePolicy is used")
    elif mode not in (*MODES, UpdateMode.AUTO):
        yield not_supported(f"{path}.updateMode", mode, MODES)
    elif mode == UpdateMode.IN_PLACE and not allowed.in_place:
        yield _needs_gate(f"{path}.updateMode", "UpdateMode InPlace", "InPlace")
    if update.min_replicas is not None and update.min_replicas <= 0:
        yield invalid(f"{path}.minReplicas", update.min_replicas, "minReplicas has to be positive")
    yield from _at_least(f"{path}.evictAfterOOMSeconds", update.evict_after_oom, "1", allowed)


def _policy(policy: ContainerPolicyManifest, path: str, allowed: _Allowed) -> Iterator[FieldError]:
    if not policy.container:
        yield required(f"{path}.containerName")
    if policy.mode is not None and policy.mode not in _SCALING:
        yield not_supported(f"{path}.mode", policy.mode, _SCALING)
    yield from _bounds(policy, path)
    if policy.mode == ContainerMode.OFF and policy.values == ControlledValues.REQUESTS_AND_LIMITS:
        yield forbidden(f"{path}.controlledValues", "controlledValues shouldn't be specified if container scaling mode is off")
    for j, name in enumerate(policy.resources or ()):
        if name not in _RESOURCES and name not in allowed.resources:
            yield not_supported(f"{path}.controlledResources[{j}]", name, _RESOURCES)
    ratio = None if policy.oom_ratio is None else policy.oom_ratio.milli / 1000
    yield from _at_least(f"{path}.oomBumpUpRatio", ratio, "1.0", allowed)
    minimum = None if policy.oom_minimum is None else policy.oom_minimum.whole
    yield from _at_least(f"{path}.oomMinBumpUp", minimum, "0", allowed)
    yield from _at_least(f"{path}.memoryAggregationIntervalSeconds", policy.window_seconds, "1", allowed)
    yield from _at_least(f"{path}.memoryAggregationIntervalCount", policy.windows, "1", allowed)
    if policy.startup is not None:
        yield from _startup(policy.startup, f"{path}.startupBoost", allowed)


def _bounds(policy: ContainerPolicyManifest, path: str) -> Iterator[FieldError]:
    for name in sorted(policy.least):  # upstream goes through a map of Go, whose order is random
        yield from _resolution(policy.least, name, f"{path}.minAllowed[{name}]")
        most = policy.most.get(name)
        if most is not None and most.nano < policy.least[name].nano:
            detail = f'max resource for {name} is lower than min of "{policy.least[name].text}"'
            yield invalid(f"{path}.maxAllowed[{name}]", most.text, detail)
    for name in sorted(policy.most):
        yield from _resolution(policy.most, name, f"{path}.maxAllowed[{name}]")


def _resolution(amounts: Resources, name: str, path: str) -> Iterator[FieldError]:
    if name == CPU and amounts[name].nano % 10**6:
        yield invalid(path, amounts[name].text, "must be a whole number of milli CPUs")
    if name == MEMORY and amounts[name].nano % 10**9:
        yield invalid(path, amounts[name].text, "must be a whole number of bytes")


def _at_least(path: str, value: float | None, least: str, allowed: _Allowed) -> Iterator[FieldError]:
    """A setting of a single VPA, which a feature gate guards."""
    if value is None:
        return
    if not allowed.tuning:
        yield forbidden(path, "not supported when feature flag PerVPAConfig is disabled")
    elif value < float(least):
        yield invalid(path, value, f"must be greater than or equal to {least}")


def _startup(startup: StartupBoostManifest, path: str, allowed: _Allowed) -> Iterator[FieldError]:
    if not allowed.boost:
        yield _needs_gate(path, "startupBoost", "CPUStartupBoost")
    elif startup.cpu is not None:
        yield from _cpu(startup.cpu, f"{path}.cpu")


def _cpu(cpu: CpuBoost, path: str) -> Iterator[FieldError]:
    if not cpu.type:
        yield required(f"{path}.type", "must be either Factor or Quantity")
    elif cpu.type == BoostKind.FACTOR:
        if cpu.factor is None:
            yield required(f"{path}.factor", "required when type is Factor")
        elif cpu.factor < 1:
            yield invalid(f"{path}.factor", cpu.factor, "must be >= 1 for type Factor")
    elif cpu.type == BoostKind.QUANTITY:
        if cpu.quantity is None:
            yield required(f"{path}.quantity", "required when type is Quantity")
        else:
            yield from _resolution({CPU: cpu.quantity}, CPU, f"{path}.quantity")
    else:
        yield not_supported(f"{path}.type", cpu.type, _BOOSTS)


def _needs_gate(path: str, what: str, gate: str) -> FieldError:
    return forbidden(path, f"in order to use {what}, you must enable feature gate {gate} in the admission-controller args")
