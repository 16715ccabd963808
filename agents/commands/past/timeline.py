"""Runs `ullage timeline` and `ullage history`: what happened in a stretch of the log, and how the values of a workload changed.

A record that was published twice counts once. Broadcast records are read from one partition. Recommendations are many and change
nothing by themselves, so they are left out by default.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import Literal

from agents.processes.signals import stoppable
from agents.settings import event_times, log_factory, setting_texts
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import Row
from agents.why import event_descriptions
from schemas.catalogue import Event
from schemas.decisions.recommendations import MemoryLeakFound, RequestsRecommended
from schemas.facts.pods import PodChanged
from schemas.facts.sources import SourceReported
from streams import truncated_topics
from streams.codec.event_codec import header
from streams.errors import BadInput
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import has_topic, read_range
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog
from streams.topics import KeySpace

TOPICS = (
    "rules",
    "policies",
    "control",
    "oom-events",
    "cluster-changes",
    "memory-leaks",
    "pod-updates",
    "node-updates",
    "replica-plans",
    "outcomes",
)
RECOMMENDATIONS = "recommendations"
OF_VALUES = (RECOMMENDATIONS, "pod-changes")
"""The topics that `changes` reads."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened. `about` is the workload's key, or the record's key where there is none."""

    at: datetime
    what: str
    about: str
    detail: str
    place: str


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """Which entries: of namespaces that match one of these patterns (none means all), and of a workload with this name.

    Of one cluster, if that is given, and of what holds for all of them.
    """

    namespaces: tuple[str, ...] = ()
    workload: str = ""
    cluster: str | None = None

    def holds(self, key: str, workload: str | None) -> bool:
        """Whether to show an event. What concerns the whole cluster is shown unless one workload is asked for."""
        # rules hold in all clusters
        if key.startswith("stage/"):
            return not self.workload
        # a key begins with its cluster, or with a pattern where a policy is for several
        if self.cluster is not None and not fnmatchcase(self.cluster, key.partition("/")[0]):
            return False
        if self.workload:
            return workload is not None and is_called(workload, self.workload)
        if not self.namespaces:
            return True
        if workload is None:
            return "/" not in key
        return setting_texts.is_of_namespaces(self.namespaces, workload.split("/")[1])


def is_called(key: str, asked: str) -> bool:
    """Whether this names a workload: its key, the end of that, or NAMESPACE/NAME."""
    _, _, within = key.partition("/")
    namespace, _, kind_and_name = within.partition("/")
    return key == asked or key.endswith(f"/{asked}") or asked == f"{namespace}/{kind_and_name.partition('/')[2]}"


def read(
    context: LogContext, topics: Sequence[str], since: datetime | None, until: datetime | None, wanted: TimelineFilter
) -> Iterator[TimelineEntry]:
    """The entries in order of time. Raises LogUnavailable."""
    wires = [context.topics.wire(name) for name in topics]
    seen: set[str] = set()
    for record in read_range(context.log, [w for w in wires if has_topic(context.log, w)], since=since, until=until, merged=True):
        if record.partition and context.topics.topic(record.topic).keyed is KeySpace.BROADCAST:
            continue
        ident, event = header(record, "ce_id") or str(record.place), context.codec.decode_or_none(record)
        # redelivery publishes a record twice, with one id
        if event is None or isinstance(event, SourceReported) or ident in seen or not is_news(event):
            continue
        seen.add(ident)
        entry = entry_of(record, event)
        if wanted.holds(entry.about, event_descriptions.workload_of(event)):
            yield entry


def is_news(event: Event) -> bool:
    """False of a leak that was told before."""
    # the recommender tells a leak again each hour, for readers that began later
    return not (isinstance(event, MemoryLeakFound) and event.again)


def entry_of(record: Record, event: Event) -> TimelineEntry:
    """The entry of a record and its event."""
    workload = event_descriptions.workload_of(event)
    about = workload or (record.key or b"").decode(errors="replace")
    numbers = event_descriptions.numbers(event, workload)
    detail = ", ".join(f"{name} {event_descriptions.text(value)}" for name, value in numbers.items())
    return TimelineEntry(event.at, event_descriptions.what(event), about, detail, str(record.place))


@dataclass(frozen=True, slots=True)
class ValueChange:
    """What a container requests, or is recommended, from a moment on; cores and bytes, None if not set."""

    at: datetime
    container: str
    what: str
    cpu: float | None
    memory: float | None
    cpu_lower: float | None = None
    cpu_upper: float | None = None
    memory_lower: float | None = None
    memory_upper: float | None = None
    place: str = ""


def changes(context: LogContext, workload: str, since: datetime | None, until: datetime | None) -> Iterator[ValueChange]:
    """Each change of what the containers of a workload (by key) request and are recommended."""
    wires = [context.topics.wire(name) for name in OF_VALUES]
    last: dict[tuple[str, str], tuple[float | None, ...]] = {}
    for record in read_range(context.log, wires, since=since, until=until, merged=True):
        # before decoding, which is most of the cost
        if record.key != workload.encode():
            continue
        event = context.codec.decode_or_none(record)
        for change in _values(event, str(record.place)):
            amounts = (change.cpu, change.memory, change.cpu_lower, change.cpu_upper, change.memory_lower, change.memory_upper)
            if last.get((change.container, change.what)) != amounts:
                last[change.container, change.what] = amounts
                yield change


def _values(event: Event | None, place: str) -> Iterator[ValueChange]:
    if isinstance(event, RequestsRecommended):
        for container in event.containers:
            bounds = (container.lower.cpu, container.upper.cpu, container.lower.memory, container.upper.memory)
            yield ValueChange(
                event.at, container.container, "recommended", container.target.cpu, container.target.memory, *bounds, place
            )
    elif isinstance(event, PodChanged):
        for seen in event.containers:
            yield ValueChange(event.at, seen.name, "requested", seen.requests.cpu, seen.requests.memory, place=place)


def workload_named(context: LogContext, asked: str) -> list[str]:
    """The keys of workloads with a recommendation and this name."""
    records = read_range(context.log, [context.topics.wire(RECOMMENDATIONS)])
    keys = dict.fromkeys((record.key or b"").decode(errors="replace") for record in records)
    return [key for key in keys if is_called(key, asked)]


_COLUMNS = ("what", "about", "detail", "place")
_SPARE = ("place", "cpu bounds", "memory bounds")
_amount = partial(event_descriptions.amount, "-")
TimelineForm = Literal["table", "wide", "json", "yaml", "csv", "md", "html"]


@dataclass(frozen=True, slots=True)
class TimelineFlags:
    """What is wanted, the stretch and the form; `all` also shows recommendations, `limit` bounds the entries."""

    wanted: TimelineFilter
    begin: str | None = None
    end: str | None = None
    form: TimelineForm = "table"
    limit: int | None = None
    all: bool = False


def timeline(settings: Settings, flags: TimelineFlags) -> None:
    """Print the entries of the stretch."""
    topics = (*TOPICS, *((RECOMMENDATIONS,) if flags.all else ()))
    with _stretch(settings, flags) as (context, since, until):
        # sources publish a scrape's facts together, so within a minute the log's order is not that of event time
        entries = sorted(read(context, topics, since, until, flags.wanted), key=attrgetter("at"))[: flags.limit]
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
        keys = [key for key in workload_named(context, asked) if flags.wanted.cluster in {None, key.partition("/")[0]}]
        if not keys:
            raise BadInput(_never_recommended(context, asked))
        if len(keys) > 1:
            raise BadInput(f"'{asked}' may be any of {', '.join(sorted(keys)[:5])}: say which")

        history_of_values = sorted(changes(context, keys[0], since, until), key=attrgetter("at"))[: flags.limit]
        place = context.topics.partition_of(keys[0])
        lost = truncated_topics.sentence(
            truncated_topics.late_starts(context.log, context.topics, OF_VALUES, before=since, partition=place)
        )
    _print(
        flags.form,
        f"History of {keys[0]}",
        [_shown(change) for change in history_of_values],
        [{**asdict(change), "at": change.at.isoformat()} for change in history_of_values],
    )
    if lost:
        note(lost)


def _never_recommended(context: LogContext, asked: str) -> str:
    """Why there is no history: the log has no workload of this name, or no longer."""
    lost = truncated_topics.sentence(truncated_topics.late_starts(context.log, context.topics, (RECOMMENDATIONS,)))
    give = "give NAMESPACE/KIND/NAME, NAMESPACE/NAME, or its name"
    if lost:
        return f"no recommendation for a workload '{asked}' is kept; {lost}. If it has another name, {give}"
    return f"nothing was ever recommended for a workload '{asked}': {give}"


@contextmanager
def _stretch(settings: Settings, flags: TimelineFlags) -> Iterator[tuple[LogContext, datetime | None, datetime | None]]:
    with stoppable(), log_factory.context_to_read(settings) as (context, _):
        tick = OperatorLog(context).newest_tick()
        if tick is None:
            raise BadInput("the log holds no tick, so nothing happened in it yet")
        if flags.wanted.cluster is not None:
            source_reports.require_cluster(context, flags.wanted.cluster)
        yield context, *event_times.stretch(flags.begin, flags.end, tick.at)


def _print(form: TimelineForm, title: str, shown: Sequence[Row], exact: Sequence[Row]) -> None:
    for line in (
        output_table.html_page(title, (), shown) if form == "html" else output_table.lines(form, shown, exact, spare=_SPARE)
    ):
        data(line)


def _shown(change: ValueChange) -> Row:
    return {
        "time": f"{change.at:%Y-%m-%d %H:%M:%S}",
        "container": change.container,
        "what": change.what,
        "cpu": _amount(cpu=change.cpu),
        "cpu bounds": "" if change.cpu_lower is None else f"{_amount(cpu=change.cpu_lower)}..{_amount(cpu=change.cpu_upper)}",
        "memory": _amount(memory=change.memory),
        "memory bounds": ""
        if change.memory_lower is None
        else f"{_amount(memory=change.memory_lower)}..{_amount(memory=change.memory_upper)}",
        "place": change.place,
    }
