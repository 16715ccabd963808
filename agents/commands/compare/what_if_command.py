"""Runs `ullage replay` with other rules: the same stretch decided twice, and the differences."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import isclose, isnan
from pathlib import Path

import orjson

from agents.backtest.what_if import ContainerKey, OtherRules, PlannedUpdate, StretchDecisions, WhatIf, what_if
from agents.commands.change import policy_file
from agents.processes.signals import stoppable
from agents.run.pipeline import stages
from agents.settings import event_times, log_factory, setting_texts
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import note
from agents.terminal.output_table import TextForm
from agents.why import event_descriptions
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.outcomes import Action
from schemas.policies.control import RuleValue
from schemas.times import rfc3339
from schemas.units import Fraction
from streams import truncated_topics
from streams.errors import BadInput
from streams.publishing.operator_log import OperatorLog

_STAGES: Mapping[str, str] = {"vertical": "recommender", "updates": "updater", "nodes": "scaler", "replicas": "forecaster"}
"""The stage that decides by a group of settings."""
_GUARD = "guard."
_BUDGET = ("updates.budget", "updates.max_concurrent", "updates.maxConcurrent")
_SHOWN = 20
_NOUN = {Action.EVICT: "evictions", Action.RESIZE: "resizes"}
_OTHERS = {
    NodeRemovalPlanned: "removals of nodes",
    ScaleUpPlanned: "growths of node groups",
    ReplicasPlanned: "changes of replicas",
}


@dataclass(frozen=True, slots=True)
class WhatIfFlags:
    """The stretch, and a file of vertical policies."""

    begin: str | None
    end: str | None
    policy: Path | None
    form: TextForm


def is_rule(item: str) -> bool:
    """Whether `--set` names a rule of a stage."""
    group, dot, _ = item.partition("=")[0].partition(".")
    return bool(dot) and (group in _STAGES or f"{group}." == _GUARD)


def settings_of(given: Iterable[str]) -> tuple[str, ...]:
    """`--set` in the form of settings: a guard is a setting of the updater, `5%` is 0.05, and maxConcurrent is the budget."""
    return tuple(_setting(item) for item in given)


def _setting(item: str) -> str:
    name, equals, value = item.partition("=")
    name = f"updates.{name.removeprefix(_GUARD)}" if name.startswith(_GUARD) else name
    name = _BUDGET[0] if name in _BUDGET else name
    if value.endswith("%"):
        try:
            value = str(setting_texts.share(value))
        except ValueError:
            raise BadInput(f"--set {item}: '{value}' is no share") from None
    return f"{name}{equals}{value}"


def run(settings: Settings, given: Sequence[str], flags: WhatIfFlags) -> int:
    """Decide the stretch again and print the difference; `given` are the settings that were named on the command line."""
    rules = _other_rules(settings, given, flags.policy)
    with stoppable(), log_factory.context_to_read(settings) as (context, fitted):
        tick = OperatorLog(context).newest_tick()
        if tick is None:
            raise BadInput("the log holds no tick, so there is no stretch to decide again")
        since, until = event_times.stretch(flags.begin, flags.end, tick.at)
        since, until = since or datetime.min.replace(tzinfo=tick.at.tzinfo), until or tick.at
        if until <= since:
            raise BadInput(f"--to {flags.end} is not after --from {flags.begin}")
        topics = {name for stage in stages(fitted) for name in stage.reads}
        # before the stretch is decided: retention must not take the answer away meanwhile
        lost = truncated_topics.sentence(truncated_topics.late_starts(context.log, context.topics, sorted(topics)))
        # the last of the growing comparisons, without keeping the others
        [outcome] = deque(what_if(context, stages(fitted), rules, since, until), maxlen=1) or [WhatIf()]
    if not outcome.turns:
        raise BadInput(f"the log has no tick from {rfc3339(since)} to {rfc3339(until)}")
    changes = list(_changes(rules, outcome))
    output_table.print_text(flags.form, _lines(outcome, changes, flags.form), _object(outcome, changes))
    if not changes:
        note("nothing of this is other than the log says, so both sides are the same")
    note("facts are as recorded; after the first difference the other side is an estimate")
    if lost:
        note(f"both sides begin with what is kept; {lost}")
    return 0


def _other_rules(settings: Settings, given: Sequence[str], policy: Path | None) -> OtherRules:
    changed: dict[str, dict[str, RuleValue]] = {}
    budget: Fraction | None = None
    for item in given:
        group, _, name = item.partition("=")[0].partition(".")
        if group in _STAGES:
            # the value as pydantic read it, not the text of the flag
            changed.setdefault(_STAGES[group], {})[name] = asdict(getattr(settings, group))[name]
            budget = settings.updates.budget if f"{group}.{name}" == _BUDGET[0] else budget
    rules = OtherRules(changed, () if policy is None else policy_file.read(policy), budget)
    if not rules:
        raise BadInput("nothing is other than recorded: give --set guard.budget=5%, --set vertical.margin=0.3 or --policy FILE")
    return rules


def _changes(rules: OtherRules, outcome: WhatIf) -> Iterator[str]:
    """What is other than in the log: a setting that has the value that it had all along is no other rule."""
    for (stage, name), before in outcome.replaced.items():
        was, now = " and ".join(orjson.dumps(value).decode() for value in before), rules.settings[stage][name]
        yield f"{stage}: {name} is {orjson.dumps(now).decode()} instead of {was}"
    if outcome.replaced_budgets:
        was = " and ".join(f"{budget:g}" for budget in sorted(outcome.replaced_budgets))
        yield f"control: every cluster's budget is {rules.budget:g} instead of {was}"
    yield from (f"policy '{policy.target}': mode {policy.update_mode.value}" for policy in rules.policies)


def rows(outcome: WhatIf) -> dict[str, tuple[int, int]]:
    """What both sides decided, by what it is."""
    recorded, other = outcome.recorded, outcome.other
    counts = {f"{noun} planned": (_planned(recorded, action), _planned(other, action)) for action, noun in _NOUN.items()}
    for kind, noun in _OTHERS.items():
        # kinds that neither side decided would be rows of noughts
        if recorded.others[kind] or other.others[kind]:
            counts[f"{noun} planned"] = (recorded.others[kind], other.others[kind])
    for guard in sorted(recorded.refused.keys() | other.refused.keys()):
        counts[f"refused by '{guard}'"] = (recorded.refused[guard], other.refused[guard])
    counts["containers whose memory went over the recommendation"] = (len(recorded.over), len(other.over))
    return counts


def _planned(side: StretchDecisions, action: Action) -> int:
    return sum(update.action is action for update in side.updates.values())


def _figures(outcome: WhatIf) -> dict[ContainerKey, tuple[tuple[float, float], tuple[float, float]]]:
    """Containers whose last recommendation is another."""
    recorded, other = outcome.recorded.targets, outcome.other.targets
    pairs = {key: (recorded[key], other[key]) for key in recorded if key in other}
    return {key: pair for key, pair in pairs.items() if not all(map(_same, *pair))}


def _same(recorded: float, other: float) -> bool:
    return (isnan(recorded) and isnan(other)) or isclose(recorded, other, rel_tol=1e-9)


def _lines(outcome: WhatIf, changes: Sequence[str], form: TextForm) -> Iterator[str]:
    stretch = f"{outcome.first:%Y-%m-%d %H:%M:%S} to {outcome.last:%Y-%m-%d %H:%M:%S} UTC"
    yield f"{stretch}, {outcome.turns:,} ticks decided twice; nothing is changed"
    yield from changes
    shown = [
        {"": what, "as recorded": a, "other rules": b, "difference": f"{b - a:+d}" if b != a else "="}
        for what, (a, b) in rows(outcome).items()
    ]
    yield from output_table.lines("wide" if form == "wide" else "table", shown, shown)
    done = ", ".join(f"{count} {action.value}" for action, count in sorted(outcome.carried_out.items())) or "nothing"
    yield f"carried out in the stretch, by the recorded outcomes: {done}"
    yield from _listed("avoided", outcome.only_recorded())
    yield from _listed("added", outcome.only_other())
    moved = outcome.moved()
    yield from _cut("at another time", [f"{_update(a)}, then {b.at:%H:%M:%S}" for a, b in moved])
    yield from _cut("figures changed", [_figure(key, *pair) for key, pair in sorted(_figures(outcome).items())])


def _listed(title: str, updates: Sequence[PlannedUpdate]) -> Iterator[str]:
    yield from _cut(title, [_update(update) for update in sorted(updates, key=lambda update: (update.at, update.pod))])


def _cut(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title} ({len(lines)}):"
        yield from (f"  {line}" for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield f"  and {len(lines) - _SHOWN} more (-o json has all)"


def _update(update: PlannedUpdate) -> str:
    return f"{update.at:%H:%M:%S} {update.action.value} {update.pod} ({update.workload})"


def _figure(key: ContainerKey, recorded: tuple[float, float], other: tuple[float, float]) -> str:
    cpu = (
        f"cpu {event_descriptions.amount(cpu=recorded[0])} → {event_descriptions.amount(cpu=other[0])}"
        if not _same(recorded[0], other[0])
        else ""
    )
    memory = f"memory {_size(recorded[1])} → {_size(other[1])}" if not _same(recorded[1], other[1]) else ""
    return f"{key[0]} {key[1]}: {', '.join(filter(None, (cpu, memory)))}"


def _size(size: float) -> str:
    return "-" if isnan(size) else event_descriptions.amount(memory=int(size))


def _object(outcome: WhatIf, changes: Sequence[str]) -> dict[str, object]:
    """For programs. Amounts are in cores and bytes."""
    return {
        "from": outcome.first,
        "to": outcome.last,
        "ticks": outcome.turns,
        "changes": changes,
        "counts": {what: {"recorded": a, "other": b} for what, (a, b) in rows(outcome).items()},
        "carried_out": {action.value: count for action, count in sorted(outcome.carried_out.items())},
        "avoided": outcome.only_recorded(),
        "added": outcome.only_other(),
        "moved": [{"recorded": a, "other": b} for a, b in outcome.moved()],
        "figures": [
            {"workload": key[0], "container": key[1], "recorded": _amounts(recorded), "other": _amounts(other)}
            for key, (recorded, other) in sorted(_figures(outcome).items())
        ],
    }


def _amounts(amounts: tuple[float, float]) -> dict[str, float | None]:
    cpu, memory = (None if isnan(amount) else amount for amount in amounts)
    return {"cpu": cpu, "memory": memory}
