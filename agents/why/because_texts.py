"""A decision's `because` in plain words: one line for each entry, every amount with its unit.

Entries that the stages write today become sentences; any other entry is written out as it is. The only setting shown is the
margin, because the sum needs no other; `in_full` shows all of them. `because` is for people alone: nothing here decides anything.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from agents.why import event_descriptions, scaling_texts

# What a person needs to follow the rest.
_FIRST = ("why", "containers", "bounds", "node", "last_oom", "oom_source")
"""The entries that come first, in this order; the others follow in the order of the record."""


def in_full(because: Mapping[str, object]) -> Iterator[str]:
    """Every name and value as the record has them."""
    for name, value in because.items():
        yield f"{name}: {event_descriptions.text(value, exact=True)}"


def in_words(because: Mapping[str, object]) -> Iterator[str]:
    """The entries as sentences."""
    settings = _mapping(because.get("settings"))
    rest = [name for name in because if name not in _FIRST]
    for name in [*(name for name in _FIRST if name in because), *rest]:
        value = because[name]
        # Nobody is bound to write `because` in one form, so what has another form is written out as it is.
        if name == "containers" and isinstance(value, Mapping):
            for container, about in value.items():
                yield from _container(str(container), _mapping(about), settings)
        elif name == "policy_grounds" and isinstance(value, Mapping):
            for container, grounds in value.items():
                yield from policy_grounds(str(container), _mapping(grounds))
        elif name in _OFFERS and isinstance(value, Mapping) and "place" not in value:
            yield f"{_OFFERS[name]}: {event_descriptions.text(scaling_texts.amounts(value))}"
        elif name in _SENTENCES:
            yield f"{_NAMES.get(name, name)}: {_SENTENCES[name](value)}"
        else:
            yield f"{_NAMES.get(name, name)}: {event_descriptions.text(value)}"


def _container(name: str, about: Mapping[str, object], settings: Mapping[str, object]) -> Iterator[str]:
    if "requests" in about and "target" in about:
        for what in ("cpu", "memory"):
            yield f"{name} {what}: {_requested(what, about)}"
    elif "samples" in about:
        # The grounds of a recommendation; those above are of an update.
        span = f" from {_time(about['first'])} to {_time(about['last'])}" if about.get("first") and about.get("last") else ""
        yield f"{name}: {event_descriptions.text(about['samples'])} samples{span}"
        margin = _number(about.get("margin")) or _number(settings.get("margin")) or 0.0
        for what in ("cpu", "memory"):
            estimate = _mapping(about.get(what))
            # a kill is a measurement, too, so memory may have one without a sample
            measured = about["samples"] or _number(_mapping(estimate.get("percentiles")).get("target"))
            yield f"{name} {what}: {_estimated(what, estimate, margin) if measured else _unmeasured(what, estimate, settings)}"
    else:
        yield f"{name}: {event_descriptions.text(about)}"


def _requested(what: str, about: Mapping[str, object]) -> str:
    """`763m requested, 1101m recommended (bounds: 762m to 1440m)`."""
    requests, target, lower, upper = (
        _amount(what, _mapping(about.get(name)).get(what)) for name in ("requests", "target", "lower", "upper")
    )
    return f"{requests} requested, {target} recommended (bounds: {lower} to {upper})"


def _estimated(what: str, about: Mapping[str, object], margin: float) -> str:
    """`958m at the target percentile, plus 15% margin; lower percentile 664m, upper 1016m, confidence 4.29; at least 25m`.

    The bounds are these percentiles with the margin, widened where confidence is low. Two decimals of it are enough to see that.
    """
    percentiles = _mapping(about.get("percentiles"))
    lower, target, upper = (_percentile(what, percentiles.get(name)) for name in ("lower", "target", "upper"))
    parts = [f"{target} at the target percentile, plus {margin:.0%} margin"]
    confidence = _number(about.get("confidence"))
    sure = event_descriptions.text(None) if confidence is None else f"{confidence:.2f}".rstrip("0").rstrip(".")
    parts.append(f"lower percentile {lower}, upper {upper}, confidence {sure}")
    for name, words in (("minimum", "at least"), ("min_allowed", "policy: at least"), ("max_allowed", "policy: at most")):
        if about.get(name) is not None:
            parts.append(f"{words} {_amount(what, about[name])}")
    return "; ".join(parts)


def _unmeasured(what: str, about: Mapping[str, object], settings: Mapping[str, object]) -> str:
    """What is recommended without a sample: nothing, or if a setting asks for it the larger minimum, up to a maximum."""
    if settings.get("recommend_unseen") is not True:
        return "nothing was measured yet, so nothing is recommended"
    kinds = {
        "minimum": "the least of any container",
        "min_allowed": "the policy's minimum",
        "max_allowed": "the policy's maximum",
    }
    bounds = {name: amount for name in kinds if (amount := _number(about.get(name))) is not None}
    given = max(bounds.keys() - {"max_allowed"}, key=bounds.__getitem__, default=None)
    if given is None or bounds.get("max_allowed", math.inf) < bounds[given]:
        given = "max_allowed" if "max_allowed" in bounds else None
    return (
        f"nothing was measured yet, so the target is {kinds[given]}, {_amount(what, bounds[given])}"
        if given
        else "nothing was measured yet"
    )


def _oom(value: object) -> str:
    kill = _mapping(value)
    if not kill:
        return "none"
    request = _amount("memory", kill.get("memory_request"))
    counted = "" if kill.get("counted") is not False else ", not counted"
    if (most := kill.get("pod_limit")) is not None:
        counted = f", at its pod's own limit of {_amount('memory', most)}{counted}"
    return f"{_time(kill.get('at'))}, container {kill.get('container')} of {kill.get('pod')}, which requested {request}{counted}"


def _watched(value: object) -> str:
    """Whether a source looks for OOM kills."""
    seen = _mapping(value)
    source, at = seen.get("source"), _time(seen.get("at"))
    if seen.get("state") == "alive":
        return f"'{source}', which reported at {at}"
    if seen.get("state") == "silent":
        return f"none at work: '{source}' is silent since {at}"
    return "none has reported itself" if seen.get("state") == "none" else event_descriptions.text(value)


def _node(value: object) -> str:
    """The largest node, and the sums of the pod that were cut down to it."""
    node = _mapping(value)
    if not node:
        return "none known"
    cut = [_cut(resource, excess) for resource, excess in _mapping(node.get("cut")).items()]
    room = f"'{node.get('node')}' has {_amount('cpu', node.get('cpu'))} / {_amount('memory', node.get('memory'))} for pods"
    return f"{room}; cut down to it: {', '.join(cut) or 'nothing'}"


def _cut(name: str, value: object) -> str:
    """`target cpu of 4500m`, from the name `target_cpu` and the sum before it was cut."""
    what, words = "cpu" if name.endswith("cpu") else "memory", name.replace("_", " ")
    amount = _number(value)
    unbounded = amount is not None and event_descriptions.is_unbounded(**{what: amount})
    return f"{words} without a bound" if unbounded else f"{words} of {_amount(what, value)}"


def _floors(value: object) -> str:
    """`web at least 448.0 MiB since it was killed under 128.0 MiB (2 failures, the last counted at 2026-01-05 00:24:30)`."""
    return "; ".join(f"{name} {_floor(_mapping(floor))}" for name, floor in _mapping(value).items())


def _floor(floor: Mapping[str, object]) -> str:
    least, tried = (_amount("memory", floor.get(name)) for name in ("memory", "killed_under"))
    failures = floor.get("failures")
    # The turn that took the last kill in, which is later than the kill itself.
    last = f"{failures} failure{'' if failures == 1 else 's'}, the last counted at {_time(floor.get('killed'))}"
    return f"at least {least} since it was killed under {tried} ({last})"


def _pods(value: object) -> str:
    if not isinstance(value, Mapping):
        return event_descriptions.text(value)
    return "; ".join(f"of the {name} {_count(_mapping(about))}" for name, about in _mapping(value).items())


def _count(about: Mapping[str, object]) -> str:
    return f"{about.get('running')} of {about.get('live')} running, {about.get('being_changed') or 'none'} being changed"


def _policy(value: object) -> str:
    policy = _mapping(value)
    beside = f"; what decides and its risks are also from the policy '{policy.get('beside')}'" if policy.get("beside") else ""
    return f"'{policy.get('target')}', version {policy.get('version')}{beside}" if policy else "none"


def _settings(value: object) -> str:
    return f"{len(_mapping(value))} that the sum depends on (-v shows them, and every number in full)"


def _share(value: object) -> str:
    share = _number(value)
    return event_descriptions.text(value) if share is None else f"{share:.0%}"


def _why(value: object) -> str:
    return " and ".join(str(part) for part in value) if isinstance(value, Sequence) else str(value)


def _yes(value: object) -> str:
    return "yes" if value is True else "no" if value is False else event_descriptions.text(value)


def _amount(what: str, value: object) -> str:
    amount = _number(value)
    return event_descriptions.amount(cpu=amount) if what == "cpu" else event_descriptions.amount(memory=amount)


def _percentile(what: str, value: object) -> str:
    cores = _number(value) if what == "cpu" else None
    # Cut to whole millicores, as the estimation cuts it before it adds the margin: 125.8m and 15 % are 143m.
    return _amount(what, value) if cores is None else f"{math.trunc(cores * 1000)}m"


def _time(value: object) -> str:
    """`2026-01-05T00:24:45.123000Z` to the second, as all other times of an explanation are shown."""
    return str(value).replace("T", " ").removesuffix("Z").partition(".")[0]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _factors(value: object) -> str:
    return ", ".join(f"{resource} {factor:.3g} times what it was" for resource, factor in _mapping(value).items())


_SENTENCES: Mapping[str, Callable[[object], str]] = {
    "why": _why,
    "node": _node,
    "last_oom": _oom,
    "oom_source": _watched,
    "floors": _floors,
    "pods": _pods,
    "policy": _policy,
    "settings": _settings,
    "difference": _share,
    "scale_up": _yes,
    "budget": _share,
    "hpa_utilization": _factors,
}
_OFFERS: Mapping[str, str] = {"node": "a new node has", "option": "what the group would be given"}
"""Of a group's growth. A recommendation has a node, too, which is the largest there is and has a place in the log."""
_NAMES: Mapping[str, str] = {
    "node": "largest node",
    "last_oom": "last OOM kill",
    "oom_source": "source of OOM kills",
    "floors": "needed to start",
    "difference": "requests are off their target by",
    "scale_up": "something needs more than it requests",
    "hpa_utilization": "the utilisation that HPAs scale by becomes",
    "budget": "share of pods that may be away at one time",
}


# What the numbers under a decision say of caps: which node, which policy, and which caps of a container.

Because = Mapping[str, object]


def capping_node(because: Because) -> str:
    """The node that a workload's pods were cut down to; empty where there is none."""
    node = because.get("node")
    name = node.get("node") if isinstance(node, Mapping) else None
    return name if isinstance(name, str) else ""


def capping_policy(because: Because) -> str:
    """The policy that governs the workload, in words; empty where there is none."""
    policy = because.get("policy")
    if not isinstance(policy, Mapping):
        return ""
    vpa, target = policy.get("vpa"), policy.get("target")
    return f"VPA '{vpa}'" if isinstance(vpa, str) else f"policy '{target}'" if isinstance(target, str) else ""


def governing_vpa(because: Because) -> str:
    """The VPA by which a pod is governed, as `namespace/name`; empty where it is a policy of ours."""
    return str(_mapping(because.get("policy")).get("vpa") or "")


def cap_words(because: Because) -> Mapping[str, tuple[str, ...]]:
    """The words for what caps each container, by which guard `capped` refused."""
    caps = _mapping(because.get("caps"))
    return {
        name: tuple(word for word in words if isinstance(word, str))
        for name, words in caps.items()
        if isinstance(name, str) and isinstance(words, list | tuple)
    }


def policy_grounds(name: str, about: Mapping[str, object]) -> Iterator[str]:
    """Sentences on what a policy as code says of one container: of `adaptive`, the sum, and what was promised and delivered."""
    if "cpu_expert" not in about or "memory_expert" not in about:
        yield f"{name}: {event_descriptions.text(about)}"
        return
    yield from (
        f"{name} {what}: {sentence}" for what, sentences in (("cpu", _cpu), ("memory", _memory)) for sentence in sentences(about)
    )


def _cpu(about: Mapping[str, object]) -> Iterator[str]:
    cores = {key.removeprefix("cpu_"): _cores(about.get(key)) for key in about if key.startswith("cpu_")}
    down, up, rise = (f"{_number_of(about, f'cpu_{key}'):g}" for key in ("down", "up", "raise"))
    yield (
        f"expert '{about['cpu_expert']}' says {cores['proposed']}, times a margin of {_number_of(about, 'cpu_margin'):.3f}, at "
        f"least {cores['least']} and {rise} times the last {cores['last']}; not {cores['prior']}, if beyond {down} to {up} of it"
    )
    raised = _number_of(about, "cpu_raised_by")
    yield f"in force {cores['request']}" + (f", {rise} times the {cores['raised_by']} that were used since" if raised else "")
    short, promised = _number_of(about, "cpu_short_delivered"), _number_of(about, "cpu_short_promised")
    nearly_used_up = "; nearly used up, so only experts that kept it are followed" if _number_of(about, "cpu_held") else ""
    yield f"more used than requested in {short:.2%} of the time, promised at most {promised:.2%}{nearly_used_up}"
    for key, word in (("more", "higher"), ("less", "lower")):
        if about.get(f"cpu_{key}_expert") is not None:
            yield (
                f"the next {word} is '{about[f'cpu_{key}_expert']}' with {cores[f'{key}_request']}; it would have cost "
                f"{cores[f'{key}_cost']} lately, instead of {cores['cost']}, time above the request counted in"
            )


def _memory(about: Mapping[str, object]) -> Iterator[str]:
    sizes = {key.removeprefix("memory_"): _size(about.get(key)) for key in about if key.startswith("memory_")}
    bound = "; at most {}, as the built-in estimator, as long as it is calm or hardly known"
    most = "" if about.get("memory_at_most") is None else bound.format(sizes["at_most"])
    yield (
        f"expert '{about['memory_expert']}' says {sizes['base']}, times {_number_of(about, 'memory_margin'):g}; at least "
        f"{_number_of(about, 'memory_guard'):g} times the last hour's {sizes['last_hour']}, and {sizes['least']}{most}"
    )
    before = (
        ""
        if about.get("memory_prior") is None
        else f" instead of {sizes['prior']} (a raise is to {_number_of(about, 'memory_up'):g} times that or more)"
    )
    yield (
        f"in force {sizes['request']}: when it changed last, {sizes['of']} times {_number_of(about, 'memory_factor'):g} "
        f"because of its {about.get('memory_cause')}{before}"
    )
    kills = [event_descriptions.text(about.get(key)) for key in ("memory_kills", "memory_kills_built_in")]
    yield (
        f"{kills[0]} OOM kills, {kills[1]} under the built-in estimator on the same samples, promised at most "
        f"{_number_of(about, 'memory_kills_promised'):.0%} of these; a kill is priced at "
        f"{_number_of(about, 'memory_kill_price_hours'):.0f} hours of its memory"
    )
    for key, word in (("more", "one notch more"), ("less", "one notch less")):
        if about.get(f"memory_{key}_margin") is not None:
            margin, cost, more = (_number_of(about, f"memory_{key}_{what}") for what in ("margin", "cost", "kills"))
            now = sizes[f"{key}_request"]
            yield f"{word}, a margin of {margin:g}: {now} now, {cost:+.1%} requested so far, {more:+.2f} kills"


def _number_of(about: Mapping[str, object], key: str) -> float:
    value = about.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _cores(value: object) -> str:
    return event_descriptions.amount(cpu=float(value)) if isinstance(value, int | float) else "nothing"


def _size(value: object) -> str:
    return event_descriptions.amount(memory=float(value)) if isinstance(value, int | float) else "nothing"
