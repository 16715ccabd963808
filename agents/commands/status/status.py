"""Runs `ullage status`. Everything comes from the log, not from processes, and only the ends of the log are read.

Of the objects by which people ask for something it names those that changed last and who changed them, and modes at rest: whoever
waits for a change of running pods looks for their mode, and `apply` in the cluster's row would say that changes are made.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from agents.commands.change import mode, revert
from agents.commands.status import status_rows, waiting_work, workload_warnings
from agents.commands.status.status_rows import StatusRow, length
from agents.run import rules_in_log, stage_topics
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data
from agents.terminal.output_table import OutputForm
from schemas.policies.control import Author, ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.policies.vertical import UpdateMode
from schemas.policies.vpa import VpaChanged
from streams import reverse_log_reader
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing.operator_log import NewestTick, OperatorLog

MOST = 256
"""Records of one partition that are looked at; every partition has a copy of each."""
MOST_IN_FORCE = 5_000
"""Records of a partition of the policies in force that are looked at, the newest; compaction leaves one for each object."""
SHOWN = 3
"""Names of those that have one mode."""
_Mirrored = VpaChanged | EhpaChanged | TimeSeriesPredictionChanged
_KINDS: Mapping[type[_Mirrored], str] = {
    VpaChanged: "VerticalPodAutoscaler",
    EhpaChanged: "EffectiveHorizontalPodAutoscaler",
    TimeSeriesPredictionChanged: "TimeSeriesPrediction",
}
_RESTING: Mapping[UpdateMode, str] = {
    UpdateMode.OFF: "running pods stay as they are, and new pods get nothing of what is recommended, either",
    UpdateMode.INITIAL: "running pods stay as they are, and new pods get what is recommended",
}


def mirrored_objects(context: LogContext) -> Iterator[StatusRow]:
    """A row for each kind of which an object of the cluster changed lately. Raises LogUnavailable."""
    partition = (context.topics.wire("policies"), 0)
    if not has_topic(context.log, partition[0]):
        return
    newest: dict[type[_Mirrored], _Mirrored] = {}
    for record in reverse_log_reader.last(context.log, [partition], MOST)[partition]:
        event = context.codec.decode_or_none(record)
        if isinstance(event, _Mirrored) and event.cluster == context.cluster:
            newest[type(event)] = event
    for kind, name in _KINDS.items():
        if (event := newest.get(kind)) is not None:
            by = "the object does not say by whom" if event.by is None else f"by {event.by}"
            yield StatusRow("objects", name, "mirrored", f"the last that changed is {event.namespace}/{event.name}, {by}")


def resting(context: LogContext, recommender: str) -> Iterator[StatusRow]:
    """A row for each of the two modes that leave running pods alone, and who has it.

    `recommender` is the name under which VPAs are served. Raises LogUnavailable.
    """
    objects = {**_vpas(context, recommender), **_policies(context)}
    for update_mode, says in _RESTING.items():
        names = sorted(name for name, mode_of_object in objects.items() if mode_of_object is update_mode)
        if names:
            yield StatusRow("mode", update_mode.value, "at rest", f"{_first(names)}: {says}")


def _vpas(context: LogContext, recommender: str) -> dict[str, UpdateMode | None]:
    """The VPAs of this cluster that are served."""
    wire = context.topics.wire("policies-latest")
    if not has_topic(context.log, wire):
        return {}
    places = [(wire, partition) for partition in range(context.topics.partitions)]
    last = reverse_log_reader.last(context.log, places, MOST_IN_FORCE)
    # a key lies in one partition, so the order between partitions does not matter
    newest = {record.key: record for place in places for record in last[place]}
    # a removal is a record without a value, which compaction takes away later
    events = [context.codec.decode_or_none(record) for record in newest.values() if record.value is not None]
    vpas = (event for event in events if isinstance(event, VpaChanged) and event.cluster == context.cluster)
    return {f"VPA {vpa.namespace}/{vpa.name}": vpa.update_mode for vpa in vpas if vpa.served_by(recommender)}


def _policies(context: LogContext) -> dict[str, UpdateMode | None]:
    """Those whose target may name workloads of this cluster."""
    prefix = f"{context.cluster}/"
    return {
        f"policy '{target}'": policy.update_mode
        for target, policy in OperatorLog(context).policies().items()
        if target.startswith(prefix) or prefix.startswith(target.removesuffix("*"))
    }


def commanded(context: LogContext) -> Iterator[StatusRow]:
    """A row for the reverts in force in this cluster, and one for the rules of stages, with who commanded the last of each."""
    reverts = [each for each in revert.in_force(OperatorLog(context)) if each.workload.cluster == context.cluster]
    if reverts:
        last, names = max(reverts, key=lambda each: each.at), [revert.workload_name(each) for each in reverts]
        says = f"{_first(names)}: left as they are until `ullage revert --end`"
        yield StatusRow("revert", "all", "in force", f"{says}; the last is of {revert.workload_name(last)}, {_by(last.by)}")
    rules = max(rules_in_log.in_log(context).values(), key=lambda each: each.at, default=None)
    if rules is not None:
        says = f"the last that changed are those of {rules.stage}, {rules.at:%Y-%m-%d %H:%M} UTC, {_by(rules.by)}"
        yield StatusRow("rules", "all", "in force", says)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _by(author: Author | None) -> str:
    return "the record does not say by whom" if author is None else f"by {author}"


_RUNNING = ": is `ullage source clock` running?"
_COLUMNS = ("what", "name", "state", "says")


def run(settings: Settings, form: OutputForm = "table") -> None:
    """Print a line for the clock, and for each cluster, source, stage and consumer; and for dead letters."""
    with log_factory.context_to_read(settings) as (context, fitted):
        rows = read(context, fitted, OperatorLog(context).newest_tick())
    for line in lines(rows, form):
        data(line)


def lines(rows: Sequence[StatusRow], form: OutputForm) -> Iterator[str]:
    """The lines to print."""
    shown = [
        {"what": row.kind, "name": row.name, "state": f"{row.state} !" if row.warns else row.state, "says": row.says}
        for row in rows
    ]
    exact = [{"what": row.kind, "name": row.name, "state": row.state, "warns": row.warns, "says": row.says} for row in rows]
    return output_table.lines(form, shown, exact, _COLUMNS, ("what",))


def read(context: LogContext, settings: Settings, tick: NewestTick | None) -> list[StatusRow]:
    """A row for every part, as of `tick`, the newest one: the caller has read it, and may show other things of that moment."""
    operator = OperatorLog(context)
    record = operator.control(settings.cluster.name)
    control = record if record is None or tick is None else record.in_force_at(tick.at)
    rows = [_clock(tick), *status_rows.clusters(context, control, _allowed(record, tick))]
    if tick is None:
        return rows
    allowed = Mode.SHADOW if control is None else control.mode
    # ages go on in real time while no clock ticks
    now = tick.at + timedelta(seconds=status_rows.silence(tick, settings))
    outcomes = status_rows.outcomes(context, now)
    return [
        *rows,
        # in the other modes nothing is changed, whoever writes into the log
        *(_open_log(settings) if allowed is Mode.APPLY and settings.log.kind == "kafka" else ()),
        *status_rows.sources(context, now, settings.updates.reports_within),
        *mirrored_objects(context),
        *resting(context, settings.vertical.recommender),
        *commanded(context),
        *waiting_work.waiting_inputs(context.log, context.topics),
        *status_rows.stages(context, stage_topics.ALL, settings.worker.name, now, allowed),
        *waiting_work.rows(context, now),
        *status_rows.consumers(context, outcomes, now),
        *waiting_work.unanswered_plans(context, outcomes, now, operator.control),
        *workload_warnings.left_alone(context, now),
        *workload_warnings.leaking(context, now),
        *workload_warnings.not_patched(context, now),
        *(waiting_work.missing_webhooks(context, control) if settings.evictor.needs_webhook else ()),
        status_rows.dead_letters(context, now),
    ]


def _open_log(settings: Settings) -> Iterator[StatusRow]:
    """A warning where whoever reaches the log can command."""
    from streams.admin import kafka_users  # Kafka's client is heavy, and other logs do without

    why = kafka_users.why_open(log_factory.connection(settings))
    if why is not None:
        yield StatusRow("log", settings.log.brokers, "open", f"{why}; docs/security.md has the rights", warns=True)


def _allowed(control: ControlChanged | None, tick: NewestTick | None) -> str:
    if control is None:
        return "shadow: nobody has set a mode, and nothing is changed"
    return mode.describe(control, None if tick is None else tick.at)


def _clock(tick: NewestTick | None) -> StatusRow:
    if tick is None:
        return StatusRow(
            "clock", "all", "silent", "no clock has ticked, so nothing is decided: start `ullage source clock`", warns=True
        )
    at = f"newest tick {tick.at:%Y-%m-%d %H:%M:%S} UTC"
    if tick.appended_ms < 0:
        return StatusRow("clock", "all", "unknown", f"{at}; the log does not say when it was written")
    age = status_rows.tick_age(tick)
    silent = age > status_rows.SILENT
    return StatusRow(
        "clock",
        "all",
        "silent" if silent else "at work",
        f"{at}, written {length(age)} ago{_RUNNING if silent else ''}",
        warns=silent,
    )
