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
        requests = [revert for revert in changed if _matches(revert, workloads)]
        if changed and not requests:
            raise BadInput(f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC, but to {_names(changed)}")
        control = operator.control(settings.cluster.name)
        acts = control is not None and control.in_force_at(at).mode is Mode.APPLY
        if acts:
            operator.publish(*requests)
    lines = [_line(revert) for revert in requests]
    if any(before.cpu is None or before.memory is None for revert in requests for before in revert.requests.values()):
        lines.append(f"{_AS_IT_IS}: nothing was requested before, and no request of a running pod can be taken away")
    if not requests:
        last = f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC"
    elif acts:
        last = "asked for: `ullage plan` shows how far it is, and `ullage revert --end` lets recommendations count again"
    else:
        last = f"only printed: the mode of cluster '{settings.cluster.name}' is not apply"
    whole = {
        "since": times.rfc3339(begin),
        "asked_for": acts and bool(requests),
        "workloads": [_object(revert) for revert in requests],
    }
    output_table.print_text(form, [*lines, last], whole)


def end(settings: Settings, *, workloads: str, form: TextForm = "table") -> None:
    """End the reverts in force of these workloads."""
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, settings.cluster.name)
        reverts = [revert for revert in in_force(operator) if revert.workload.cluster == settings.cluster.name]
        ended = [RevertEnded(at, revert.workload) for revert in reverts if _matches(revert, workloads)]
        if reverts and not ended:
            raise BadInput(f"no revert is in force for '{workloads}', but for {_names(reverts)}")
        operator.publish(*ended)
    text = [f"{revert.workload.key}: recommendations count again" for revert in ended]
    none = f"no revert is in force for '{workloads}'"
    output_table.print_text(form, text or [none], {"ended": [revert.workload.key for revert in ended]})


def in_force(operator: OperatorLog) -> list[RevertRequested]:
    """The reverts in force, of all clusters."""
    context = operator.context
    reverts: dict[str, RevertRequested] = {}
    for record in compacted_copy.read_present(context.log, context.topics, RULES):
        event = context.codec.decode_or_none(record)
        if isinstance(event, RevertRequested):
            reverts[event.key] = event
        elif isinstance(event, RevertEnded):
            reverts.pop(event.key, None)
    return [reverts[key] for key in sorted(reverts)]


def _moment(text: str, now: datetime) -> datetime:
    """`30m`, `2h`, or a time with an offset from UTC. Raises BadInput."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadInput(f"--since '{text}' is neither a time ago like 90s, 30m, 2h or 1d, nor one like 2026-01-05T12:00:00Z")
    return moment


def _matches(revert: RevertRequested, pattern: str) -> bool:
    return fnmatchcase(_name(revert), pattern)


def _names(reverts: Iterable[RevertRequested]) -> str:
    """As the pattern must match them, so that a name that is spelt otherwise does not look like success."""
    return ", ".join(map(_name, reverts))


def _name(revert: RevertRequested) -> str:
    return f"{revert.workload.namespace}/{revert.workload.kind}/{revert.workload.name}"


def _object(revert: RevertRequested) -> dict[str, object]:
    """For programs, in cores and bytes."""
    amounts = {"requests": revert.requests, "limits": revert.limits}
    both = {what: {name: {"cpu": a.cpu, "memory": a.memory} for name, a in sorted(of.items())} for what, of in amounts.items()}
    return {"workload": revert.workload.key, **both}


def _line(revert: RevertRequested) -> str:
    amounts = "; ".join(f"{name} {_cpu(before)} / {_memory(before)}" for name, before in sorted(revert.requests.items()))
    return f"{_name(revert)}  back to {amounts}"


def _cpu(before: Amounts) -> str:
    return _AS_IT_IS if before.cpu is None else amount(cpu=before.cpu)


def _memory(before: Amounts) -> str:
    return _AS_IT_IS if before.memory is None else amount(memory=before.memory)
