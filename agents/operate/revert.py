"""Runs `ullage revert`: requests that what was applied since a moment is undone, and ends such a revert.

The outcomes show what was applied. The first changed pod of each workload shows the requests and limits before. The request goes
into the log, and the updater plans for it as for any other change: under the same guards and budgets, in place. Until the revert
ends, neither the updater nor the webhook applies recommendations to the workload.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from agents.operate.operator_session import operator_session
from agents.processes import output_table
from agents.processes.output_table import TextForm
from agents.settings.all_settings import Settings
from agents.why.event_descriptions import amount
from schemas import times
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.pods import PodChanged
from schemas.names import Amounts, Place
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import Mode
from schemas.policies.reverts import RevertEnded, RevertRequested
from streams import compacted_copy, log_range
from streams.codec import event_codec
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog

_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AS_IT_IS = "as it is"
_PLANNED_BEFORE = timedelta(hours=1)
"""How much older than its outcome a plan may be."""


def run(settings: Settings, *, since: str, workloads: str, reason: str, form: TextForm = "table") -> None:
    """Request the revert of what was applied since then, if the cluster's mode is apply; print it in any case."""
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, settings.cluster.name)
        begin = _moment(since, at)
        changed = list(applied(operator.context, settings, begin, at, reason))
        found = [each for each in changed if _matches(each, workloads)]
        if changed and not found:
            raise BadInput(f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC, but to {_names(changed)}")
        control = operator.control(settings.cluster.name)
        acts = control is not None and control.mode is Mode.APPLY
        if acts:
            operator.publish(*found)
    lines = [_line(each) for each in found]
    if any(before.cpu is None or before.memory is None for each in found for before in each.requests.values()):
        lines.append(f"{_AS_IT_IS}: nothing was requested before, and no request of a running pod can be taken away")
    if not found:
        last = f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC"
    elif acts:
        last = "asked for: `ullage plan` shows how far it is, and `ullage revert --end` lets recommendations count again"
    else:
        last = f"only printed: the mode of cluster '{settings.cluster.name}' is not apply"
    whole = {"since": times.rfc3339(begin), "asked_for": acts and bool(found), "workloads": [_object(each) for each in found]}
    output_table.print_text(form, [*lines, last], whole)


def end(settings: Settings, *, workloads: str, form: TextForm = "table") -> None:
    """End the reverts in force of these workloads."""
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, settings.cluster.name)
        held = [each for each in in_force(operator) if each.workload.cluster == settings.cluster.name]
        ended = [RevertEnded(at, each.workload) for each in held if _matches(each, workloads)]
        if held and not ended:
            raise BadInput(f"no revert is in force for '{workloads}', but for {_names(held)}")
        operator.publish(*ended)
    text = [f"{each.workload.key}: recommendations count again" for each in ended]
    none = f"no revert is in force for '{workloads}'"
    output_table.print_text(form, text or [none], {"ended": [each.workload.key for each in ended]})


def in_force(operator: OperatorLog) -> list[RevertRequested]:
    """The reverts in force, of all clusters."""
    context = operator.context
    found: dict[str, RevertRequested] = {}
    for record in compacted_copy.read_present(context.log, context.topics, "policies", 0, ticks=False):
        event = context.codec.decode_or_none(record)
        if isinstance(event, RevertRequested):
            found[event.key] = event
        elif isinstance(event, RevertEnded):
            found.pop(event.key, None)
    return [found[key] for key in sorted(found)]


def applied(context: LogContext, settings: Settings, since: datetime, at: datetime, reason: str) -> Iterator[RevertRequested]:
    """The revert of each workload of the cluster that was changed since then."""
    done = {
        event.decision
        for event, _, _ in _events(context, "outcomes", since)
        if isinstance(event, ActionFinished)
        and event.action in (Action.RESIZE, Action.EVICT)
        and event.result is Result.DONE
        and event.detail is not OutcomeDetail.ALREADY_DONE  # done by somebody else
    }
    first: dict[str, tuple[ResizePlanned | EvictionPlanned, tuple[Place, ...]]] = {}
    for event, _, causes in _events(context, "pod-updates", since - _PLANNED_BEFORE):
        if isinstance(event, ResizePlanned | EvictionPlanned) and event.id in done:
            mine = event.workload.cluster == settings.cluster.name and event.recommendation  # a revert's plan has none
            known = first.get(event.workload.key)
            if mine and (known is None or event.at < known[0].at):
                first[event.workload.key] = event, causes
    for _, (plan, causes) in sorted(first.items()):
        yield RevertRequested(at, plan.workload, since, plan.expect, _limits(context, plan, causes), reason)


def _limits(context: LogContext, plan: ResizePlanned | EvictionPlanned, causes: tuple[Place, ...]) -> dict[str, Amounts]:
    """The pod's limits before, from the fact that the plan rests on; none if the log no longer has it."""
    for place in causes:
        records = context.log.poll({(place.topic, place.partition): place.offset}, limit=1)
        event = context.codec.decode_or_none(records[0]) if records and records[0].offset == place.offset else None
        if isinstance(event, PodChanged) and event.pod.uid == plan.pod.uid:
            return {seen.name: seen.limits for seen in event.containers if seen.name in plan.expect}
    return {}


def _events(context: LogContext, topic: str, since: datetime) -> Iterator[tuple[object, Place, tuple[Place, ...]]]:
    for record in log_range.read_range(context.log, [context.topics.wire(topic)], since=since):
        event = None if event_codec.tick_number(record) is not None else context.codec.decode_or_none(record)
        if event is not None and event.at >= since:
            yield event, record.place, tuple(event_codec.causes(record))


def _moment(text: str, now: datetime) -> datetime:
    """`30m`, `2h`, or a time with an offset from UTC. Raises BadInput."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise BadInput(f"--since '{text}' is neither a time ago like 90s, 30m, 2h or 1d, nor one like 2026-01-05T12:00:00Z")
    return found


def _matches(each: RevertRequested, pattern: str) -> bool:
    return fnmatchcase(_name(each), pattern)


def _names(reverts: Iterable[RevertRequested]) -> str:
    """As the pattern must match them, so that a name that is spelt otherwise does not look like success."""
    return ", ".join(map(_name, reverts))


def _name(each: RevertRequested) -> str:
    return f"{each.workload.namespace}/{each.workload.kind}/{each.workload.name}"


def _object(each: RevertRequested) -> dict[str, object]:
    """For programs, in cores and bytes."""
    amounts = {"requests": each.requests, "limits": each.limits}
    both = {what: {name: {"cpu": a.cpu, "memory": a.memory} for name, a in sorted(of.items())} for what, of in amounts.items()}
    return {"workload": each.workload.key, **both}


def _line(each: RevertRequested) -> str:
    amounts = "; ".join(f"{name} {_cpu(before)} / {_memory(before)}" for name, before in sorted(each.requests.items()))
    return f"{_name(each)}  back to {amounts}"


def _cpu(before: Amounts) -> str:
    return _AS_IT_IS if before.cpu is None else amount(cpu=before.cpu)


def _memory(before: Amounts) -> str:
    return _AS_IT_IS if before.memory is None else amount(memory=before.memory)
