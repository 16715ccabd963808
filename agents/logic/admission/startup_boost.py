"""More CPU for a container while it starts, beyond what is recommended: pkg/admission-controller/resource/pod/patch.

The boost ignores the maximum allowed and the controlled resources, as upstream's does. An annotation keeps the container's former
amounts, from which the updater can restore them.
"""

import json
from dataclasses import dataclass

from agents.logic.admission.vpa_manifest import AdmissionSettings, CpuBoost, StartupBoostManifest
from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import CPU, MEMORY, Container, Resources, at
from schemas import exact_quantity
from schemas.exact_quantity import MOST, Quantity
from schemas.policies.vertical import BoostKind, ControlledValues

_LEAST = exact_quantity.of_milli(1)


class BoostError(ValueError):
    """A boost that cannot be applied. The message is upstream's where it has one."""


@dataclass(frozen=True, slots=True)
class Boosted:
    """What a boost made of the amounts that were to be set. `base` is what was multiplied or added to."""

    base: Quantity
    requests: dict[str, Quantity]
    limits: dict[str, Quantity]


def boost(
    container: Container,
    startup: StartupBoostManifest,
    values: str,
    wanted: tuple[Resources, Resources],
    settings: AdmissionSettings,
) -> Boosted:
    """The requests and limits `wanted` for a container as its spec has it, boosted. Raises BoostError and UnscalableError."""
    requests, limits = dict(wanted[0]), dict(wanted[1])
    base = at(requests, CPU) or at(container.requests, CPU)
    if startup.cpu is None:
        raise BoostError("startupBoost has no cpu")
    boosted = _amount(base, startup.cpu)
    # Zero is no bound, and upstream's default.
    most = settings.most_boosted_cpu
    requests[CPU] = boosted = most if most and boosted.nano > most.nano else boosted
    if values == ControlledValues.REQUESTS_ONLY:
        # The limit stays where it is, so the request is boosted as far as that allows.
        requests[CPU] = _under(boosted, (container.limits or {}).get(CPU))
    elif values == ControlledValues.REQUESTS_AND_LIMITS:
        given = {"limit": container.limits, "request": container.requests, "recommended": {CPU: boosted}, "default": {}}
        limit = (resource_lists.limits(**given)[0] or {}).get(CPU)
        if limit is not None:
            limits[CPU] = limit
    return Boosted(base, requests, limits)


def original(container: Container) -> str:
    """The annotation: CPU and memory as the container's spec has them."""
    kept = {"requests": container.requests or {}, "limits": container.limits or {}}
    texts = {kind: {name: amounts[name].text for name in (CPU, MEMORY) if name in amounts} for kind, amounts in kept.items()}
    return json.dumps(texts, separators=(",", ":"))


def restored(container: Container, annotation: str) -> Container:
    """The container as an annotation says that it was; as it is, where the annotation cannot be read."""
    try:
        recorded = json.loads(annotation)
        lists = {kind: dict(_list(recorded, kind)) for kind in ("requests", "limits")}
    # Anybody who may write pods may write the annotation.
    except (ValueError, TypeError, AttributeError, RecursionError):
        return container
    kept = {
        kind: {name: amount for name, amount in (amounts or {}).items() if name not in (CPU, MEMORY)}
        for kind, amounts in (("requests", container.requests), ("limits", container.limits))
    }
    return Container(container.name, kept["requests"] | lists["requests"], kept["limits"] | lists["limits"])


def _list(recorded: dict[str, dict[str, object]], kind: str) -> list[tuple[str, Quantity]]:
    return [(name, exact_quantity.read(amount)) for name, amount in recorded[kind].items() if name in (CPU, MEMORY)]


def _amount(base: Quantity, cpu: CpuBoost) -> Quantity:
    if cpu.type in ("", BoostKind.FACTOR):
        if cpu.factor is None:
            raise BoostError("startupBoost.CPU.Factor is required when Type is Factor or not specified")
        if cpu.factor < 1:
            raise BoostError("boost factor must be >= 1")
        # Go multiplies as float64 and converts to int64; a factor beyond its range is held at its ends.
        return exact_quantity.of_milli(max(-MOST, min(MOST, int(base.milli * float(cpu.factor)))))
    if cpu.type != BoostKind.QUANTITY:
        raise BoostError(f"unsupported startup boost type: {cpu.type}")
    if cpu.quantity is None:
        raise BoostError("startupBoost.CPU.Quantity is required when Type is Quantity")
    return exact_quantity.of_milli(base.milli + cpu.quantity.milli)


def _under(boosted: Quantity, limit: Quantity | None) -> Quantity:
    """A millicore below the limit, so that the pod's quality of service stays what it is; the limit itself if it is no more."""
    if limit is None or boosted.milli <= limit.milli:
        return boosted
    return exact_quantity.of_nano(limit.nano - _LEAST.nano, limit.form) if limit.nano > _LEAST.nano else limit
