"""What a policy as code says of the grounds of an amount; of `adaptive`, the sum behind it, what was promised and delivered."""

from collections.abc import Iterator, Mapping

from agents.why import event_descriptions


def grounds(name: str, about: Mapping[str, object]) -> Iterator[str]:
    """Sentences about one container."""
    if "cpu_expert" not in about or "memory_expert" not in about:
        yield f"{name}: {event_descriptions.text(about)}"
        return
    yield from (f"{name} {what}: {sentence}" for what, said in (("cpu", _cpu), ("memory", _memory)) for sentence in said(about))


def _cpu(about: Mapping[str, object]) -> Iterator[str]:
    cores = {key.removeprefix("cpu_"): _cores(about.get(key)) for key in about if key.startswith("cpu_")}
    down, up, rise = (f"{_number(about, f'cpu_{key}'):g}" for key in ("down", "up", "raise"))
    yield (
        f"expert '{about['cpu_expert']}' says {cores['proposed']}, times a margin of {_number(about, 'cpu_margin'):.3f}, at "
        f"least {cores['least']} and {rise} times the last {cores['last']}; not {cores['prior']}, if beyond {down} to {up} of it"
    )
    raised = _number(about, "cpu_raised_by")
    yield f"in force {cores['request']}" + (f", {rise} times the {cores['raised_by']} that were used since" if raised else "")
    short, promised = _number(about, "cpu_short_delivered"), _number(about, "cpu_short_promised")
    held = "; nearly used up, so only experts that kept it are followed" if _number(about, "cpu_held") else ""
    yield f"more used than requested in {short:.2%} of the time, promised at most {promised:.2%}{held}"
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
        f"expert '{about['memory_expert']}' says {sizes['base']}, times {_number(about, 'memory_margin'):g}; at least "
        f"{_number(about, 'memory_guard'):g} times the last hour's {sizes['last_hour']}, and {sizes['least']}{most}"
    )
    before = (
        ""
        if about.get("memory_prior") is None
        else f" instead of {sizes['prior']} (a raise is to {_number(about, 'memory_up'):g} times that or more)"
    )
    yield (
        f"in force {sizes['request']}: when it changed last, {sizes['of']} times {_number(about, 'memory_factor'):g} because of "
        f"its {about.get('memory_cause')}{before}"
    )
    kills = [event_descriptions.text(about.get(key)) for key in ("memory_kills", "memory_kills_built_in")]
    yield (
        f"{kills[0]} OOM kills, {kills[1]} under the built-in estimator on the same samples, promised at most "
        f"{_number(about, 'memory_kills_promised'):.0%} of these; a kill is priced at "
        f"{_number(about, 'memory_kill_price_hours'):.0f} hours of its memory"
    )
    for key, word in (("more", "one notch more"), ("less", "one notch less")):
        if about.get(f"memory_{key}_margin") is not None:
            margin, cost, more = (_number(about, f"memory_{key}_{what}") for what in ("margin", "cost", "kills"))
            now = sizes[f"{key}_request"]
            yield f"{word}, a margin of {margin:g}: {now} now, {cost:+.1%} requested so far, {more:+.2f} kills"


def _number(about: Mapping[str, object], key: str) -> float:
    value = about.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _cores(value: object) -> str:
    return event_descriptions.amount(cpu=float(value)) if isinstance(value, int | float) else "nothing"


def _size(value: object) -> str:
    return event_descriptions.amount(memory=float(value)) if isinstance(value, int | float) else "nothing"
