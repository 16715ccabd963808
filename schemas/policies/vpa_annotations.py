"""Annotations by which a VPA object tunes what is recommended for its containers, because the API has no fields for that.

They read `ullage/<container>.<name>: "<number>"`. The container may be `*`, and the name is that of a field of Tuning,
`minimum_cpu` (cores) or `minimum_memory` (bytes). `ullage/<container>.policy: "adaptive"` (or "built-in") says what decides its
requests. Two concern whole pods: `ullage/patch-new-pods: "false"` leaves new pods as in
their template, and `ullage/pod-warm-up: "600"` leaves pods alone for so many seconds after their start. Annotations with other
prefixes are not ours.
"""

import math
from collections.abc import Mapping
from dataclasses import fields

from schemas.policies.vertical import Tuning
from schemas.units import Seconds

MOST_MARGIN = 100.0
MOST_LEAK_GROWTH = 100.0
LEAST_HALF_LIFE = 1.0
"""Seconds. With less, weights grow beyond all numbers within a day, and what was folded by them is lost."""
RISK_CPU = (0.001, 0.2)
"""The least and the most share of time that a container may be short of CPU."""
RISK_OOM = (0.1, 10.0)
"""The least and the most OOM kills, as a share of upstream's."""
POLICIES = ("adaptive", "built-in")
"""What may decide the requests of a container."""

_PREFIX = "ullage/"
_READ = (_PREFIX, "vpa-post-processor.kubernetes.io/")
"""Prefixes of all annotations that anything reads; the second is upstream's, for CPU in whole cores."""
_PATCHES, _WARM_UP = f"{_PREFIX}patch-new-pods", f"{_PREFIX}pod-warm-up"
_POLICY = "policy"
_NAMES = (*(f.name for f in fields(Tuning) if f.name != "minimum"), "minimum_cpu", "minimum_memory")


def numbers(annotations: Mapping[str, str], container: str) -> dict[str, float]:
    """By name, the numbers that annotations set for one container. Raises ValueError for text that is no amount."""
    by_name = {}
    for name in _NAMES:
        text = annotations.get(f"{_PREFIX}{container}.{name}")
        if text is not None:
            by_name[name] = _number(f"{_PREFIX}{container}.{name}", text)
    return by_name


def policy_of(annotations: Mapping[str, str], container: str) -> str | None:
    """What decides the requests of one container, by annotations; None if they do not say."""
    # The container's own word counts before the one for all.
    own, every = (annotations.get(f"{_PREFIX}{name}.{_POLICY}") for name in (container, "*"))
    return own or every


def patches_new_pods(annotations: Mapping[str, str]) -> bool:
    """Whether new pods get what is recommended."""
    return annotations.get(_PATCHES) != "false"


def pod_warm_up(annotations: Mapping[str, str]) -> Seconds | None:
    """How long a pod is left alone after its start; None if that is not set, or not to a number."""
    try:
        return Seconds(_number(_WARM_UP, annotations[_WARM_UP]))
    except (KeyError, ValueError):
        return None


def readable(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that we read, by name. A tenant may write anything else into an object, and we do not have to keep it."""
    return {name: text for name, text in sorted(annotations.items()) if name.startswith(_READ)}


def fault(annotations: Mapping[str, str]) -> str | None:
    """The first fault in our annotations; None if there is none."""
    faults = (_fault_of(name, text) for name, text in annotations.items() if name.startswith(_PREFIX))
    # The first is enough: it is the reason of the refusal, and a tenant may write thousands.
    return next((wrong for wrong in faults if wrong), None)


def _fault_of(name: str, text: str) -> str | None:
    if name == _PATCHES:
        return None if text in ("true", "false") else f"the annotation '{name}' is '{text}', neither 'true' nor 'false'"
    setting = name.rpartition(".")[2]
    if setting == _POLICY:
        return None if text in POLICIES else f"the annotation '{name}' is '{text}', none of {', '.join(POLICIES)}"
    if setting not in _NAMES and name != _WARM_UP:
        return f"the annotation '{name}' sets '{setting}', which is none of {', '.join((*_NAMES, _POLICY))}"
    try:
        number = _number(name, text)
    except ValueError as error:
        return str(error)
    bounds = (
        ("percentile" in setting and number > 1.0, "a percentile is at most 1"),
        ("half_life" in setting and number < LEAST_HALF_LIFE, f"a half life is at least {LEAST_HALF_LIFE:g} s"),
        *(
            (setting == risk and not least <= number <= most, f"it lies from {least:g} to {most:g}")
            for risk, (least, most) in (("risk_cpu", RISK_CPU), ("risk_oom", RISK_OOM))
        ),
        (setting == "margin" and number > MOST_MARGIN, f"a margin is at most {MOST_MARGIN:g}"),
        (
            setting == "leak_growth" and number > MOST_LEAK_GROWTH,
            f"growth a day is at most {MOST_LEAK_GROWTH:g} times the target",
        ),
    )
    return next((f"the annotation '{name}' is '{text}'; {bound}" for broken, bound in bounds if broken), None)


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"the annotation '{name}' is '{text}', which is no amount")
    return number
