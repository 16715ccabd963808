"""Runs `ullage revert`: requests that what was applied since a moment is undone, and ends such a revert.

The outcomes show what was applied, and the log has what each workload's owner had asked for before. The request goes into the
log, and the updater plans for it as for any other change: under the same guards and budgets, in place. Until the revert ends,
neither the updater nor the webhook applies recommendations to the workload.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from agents.commands.change import applied_changes
from agents.commands.change.operator_session import operator_session
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output_table import TextForm
from agents.why.event_descriptions import amount
from schemas import times
from schemas.names import Amounts
from schemas.policies.control import Mode, RevertEnded, RevertRequested
from streams import compacted_copy
from streams.errors import BadInput
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog
from streams.topics import RULES

_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AS_IT_IS = "as it is"


def run(settings: Settings, *, since: str, workloads: str, reason: str, form: TextForm = "table") -> None:
    """Request the revert of what was applied since then, if the cluster's mode is apply; print it in any case."""
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, settings.cluster.name)
        begin = _moment(since, at)
        changed = [
            RevertRequested(at, owners.workload, begin, owners.requests, owners.limits, reason)
            for owners in applied_changes.since(operator.context, settings.cluster.name, begin)
        ]
        found = [each for each in changed if _matches(each, workloads)]
        if changed and not found:
            raise BadInput(f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC, but to {_names(changed)}")
        control = operator.control(settings.cluster.name)
        acts = control is not None and control.in_force_at(at).mode is Mode.APPLY
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
    for record in compacted_copy.read_present(context.log, context.topics, RULES):
        event = context.codec.decode_or_none(record)
        if isinstance(event, RevertRequested):
            found[event.key] = event
        elif isinstance(event, RevertEnded):
            found.pop(event.key, None)
    return [found[key] for key in sorted(found)]


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
