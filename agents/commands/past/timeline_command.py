"""Runs `ullage timeline` and `ullage history`: what happened, and how the values of one workload changed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import attrgetter
from typing import Literal

from agents.commands.past import timeline_rows
from agents.commands.past.timeline_rows import TimelineFilter, ValueChange
from agents.processes.signals import stoppable
from agents.settings import event_times, log_factory
from agents.settings.all_settings import Settings
from agents.terminal import html_table, output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import Row
from agents.why import event_descriptions
from streams import truncated_topics
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog

_COLUMNS = ("what", "about", "detail", "place")
_SPARE = ("place", "cpu bounds", "memory bounds")
TimelineForm = Literal["table", "wide", "json", "yaml", "csv", "md", "html"]


@dataclass(frozen=True, slots=True)
class TimelineFlags:
    """The stretch and the form; `all` also shows recommendations, `limit` bounds the entries, `cluster` was asked for."""

    begin: str | None = None
    end: str | None = None
    form: TimelineForm = "table"
    limit: int | None = None
    all: bool = False
    cluster: str | None = None


def timeline(settings: Settings, wanted: TimelineFilter, flags: TimelineFlags) -> None:
    """Print the entries of the stretch."""
    topics = (*timeline_rows.TOPICS, *((timeline_rows.RECOMMENDATIONS,) if flags.all else ()))
    with _stretch(settings, flags) as (context, since, until):
        # sources publish a scrape's facts together, so within a minute the log's order is not that of event time
        entries = sorted(timeline_rows.read(context, topics, since, until, wanted), key=attrgetter("at"))[: flags.limit]
        lost = truncated_topics.sentence(truncated_topics.late_starts(context.log, context.topics, topics, before=since))
    shown = [{"time": f"{e.at:%Y-%m-%d %H:%M:%S}", **{n: getattr(e, n) for n in _COLUMNS}} for e in entries]
    exact = [{**asdict(entry), "at": entry.at.isoformat()} for entry in entries]
    _print(flags.form, "Timeline", shown, exact)
    if not entries:
        kept = " and that is kept" if lost else ""
        note(f"nothing happened there that a policy, a kill, a decision or an outcome tells of{kept}")
    if lost:
        note(lost)


def history(settings: Settings, asked: str, flags: TimelineFlags) -> None:
    """Print each change of what a workload's containers request and are recommended. Raises BadInput."""
    with _stretch(settings, flags) as (context, since, until):
        keys = [key for key in timeline_rows.workload_named(context, asked) if flags.cluster in {None, key.partition("/")[0]}]
        if not keys:
            raise BadInput(_never_recommended(context, asked))
        if len(keys) > 1:
            raise BadInput(f"'{asked}' may be any of {', '.join(sorted(keys)[:5])}: say which")
        changes = sorted(timeline_rows.changes(context, keys[0], since, until), key=attrgetter("at"))[: flags.limit]
        place = context.topics.partition_of(keys[0])
        lost = truncated_topics.sentence(
            truncated_topics.late_starts(context.log, context.topics, timeline_rows.OF_VALUES, before=since, partition=place)
        )
    _print(flags.form, f"History of {keys[0]}", [_shown(change) for change in changes], [_exact(change) for change in changes])
    if lost:
        note(lost)


def _never_recommended(context: LogContext, asked: str) -> str:
    """Why there is no history: the log has no workload of this name, or no longer."""
    lost = truncated_topics.sentence(truncated_topics.late_starts(context.log, context.topics, (timeline_rows.RECOMMENDATIONS,)))
    give = "give NAMESPACE/KIND/NAME, NAMESPACE/NAME, or its name"
    if lost:
        return f"no recommendation for a workload '{asked}' is kept; {lost}. If it has another name, {give}"
    return f"nothing was ever recommended for a workload '{asked}': {give}"


@contextmanager
def _stretch(settings: Settings, flags: TimelineFlags) -> Iterator[tuple[LogContext, datetime | None, datetime | None]]:
    with stoppable(), log_factory.log_to_read(settings) as (log, fitted):
        context = LogContext.of(log, log_factory.topics(fitted), settings.cluster.name)
        tick = OperatorLog(context).newest_tick()
        if tick is None:
            raise BadInput("the log holds no tick, so nothing happened in it yet")
        if flags.cluster is not None:
            source_reports.require_cluster(context, flags.cluster)
        since, until = (
            None if text is None else event_times.moment(text, tick.at, flag)
            for text, flag in ((flags.begin, "--from"), (flags.end, "--to"))
        )
        if since is not None and until is not None and until <= since:
            raise BadInput(f"--to {flags.end} is not after --from {flags.begin}")
        yield context, since, until


def _print(form: TimelineForm, title: str, shown: Sequence[Row], exact: Sequence[Row]) -> None:
    for line in html_table.lines(title, (), shown) if form == "html" else output_table.lines(form, shown, exact, spare=_SPARE):
        data(line)


def _shown(change: ValueChange) -> Row:
    return {
        "time": f"{change.at:%Y-%m-%d %H:%M:%S}",
        "container": change.container,
        "what": change.what,
        "cpu": _cpu(change.cpu),
        "cpu bounds": "" if change.cpu_lower is None else f"{_cpu(change.cpu_lower)}..{_cpu(change.cpu_upper)}",
        "memory": _memory(change.memory),
        "memory bounds": "" if change.memory_lower is None else f"{_memory(change.memory_lower)}..{_memory(change.memory_upper)}",
        "place": change.place,
    }


def _exact(change: ValueChange) -> Row:
    return {**asdict(change), "at": change.at.isoformat()}


def _cpu(amount: float | None) -> str:
    return "-" if amount is None else event_descriptions.amount(cpu=amount)


def _memory(amount: float | None) -> str:
    return "-" if amount is None else event_descriptions.amount(memory=amount)
