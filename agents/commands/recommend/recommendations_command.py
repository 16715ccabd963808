"""Runs `ullage recommendations`: what every container requests and should request, the largest saving first. Reads only."""

from collections.abc import Iterator, Sequence

from agents.commands.recommend import recommendation_table, request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.status import status_rows
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import OutputForm, Row
from agents.why import event_descriptions
from schemas.names import Amounts
from schemas.units import counted
from streams import truncated_topics
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import NewestTick, OperatorLog

_COLUMNS = (
    "namespace",
    "workload",
    "pods",
    "container",
    "cpu now → target",
    "cpu bounds",
    "memory now → target",
    "memory bounds",
)
_AMOUNTS = ("requests", "target", "lower", "upper", "saved")
_CORES, _BYTES = [f"{name}_cpu_cores" for name in _AMOUNTS], [f"{name}_memory_bytes" for name in _AMOUNTS]
_MANY_CORES = 10.0
_SENTENCES = 5
"""Rows below the table whose caps are said in a sentence."""
_SPARE = ("cpu bounds", "memory bounds", "why", "pods", "saved memory", "saved cpu", "container")
"""What a narrow terminal does without, the first to go first: `-o wide` and `ullage why` have it."""
_LAST = ("saved cpu", "saved memory", "risk", "why")


def run(settings: Settings, namespaces: Sequence[str], form: OutputForm, limit: int | None = None) -> None:
    """Print the rows of the settings' cluster. Raises BadInput for a cluster that no source has named."""
    with log_factory.context_to_read(settings) as (context, fitted):
        source_reports.require_cluster(context, context.cluster)
        tick = OperatorLog(context).newest_tick()
        rows = _rows(context, fitted, tick, namespaces)
        # read again without the patterns: a name that is spelt otherwise must not look like nothing to do
        if namespaces and not rows and (others := _rows(context, fitted, tick)):
            there_are = ", ".join(sorted({row.namespace for row in others}))
            raise BadInput(f"nothing is recommended in a namespace that matches {', '.join(namespaces)}; there are: {there_are}")
        lost = _lost(context, fitted, tick)
    status_rows.warn_of_silence(tick, settings)
    for line in lines(rows, form, limit):
        data(line)
    if lost and not rows:
        note(f"no recommendation for cluster '{settings.cluster.name}' of that time is kept; {lost}")
        return
    note(summary(rows, settings.cluster.name))
    if sentence := request_totals.held_back_in_words(rows):
        note(sentence)
    if form in (*output_table.PEOPLE, "md"):
        for sentence in recommendation_table.sentences_on_caps(rows[:limit], _SENTENCES):
            note(sentence)
    if runs := recommendation_table.runs_with_names_of_their_own(rows):
        note(runs)
    if lost:
        note(f"rows or amounts may be missing; {lost}")


def _lost(context: LogContext, settings: Settings, tick: NewestTick | None) -> str:
    """A sentence on records that the table needs and the log no longer has; empty if it has all."""
    if tick is None:
        return ""
    reach = recommendation_table.reach(settings.vertical.heartbeat)
    starts = (
        # each topic by its own reach, since pods and recommendations are stated again at different times
        truncated_topics.late_starts(context.log, context.topics, (name,), before=tick.at - span)
        for name, span in reach.items()
    )
    return truncated_topics.sentence([start for topic in starts for start in topic])


def read(context: LogContext, settings: Settings) -> Sequence[RecommendedContainer]:
    """The rows of the context's cluster at the newest tick."""
    return _rows(context, settings, OperatorLog(context).newest_tick())


def _rows(
    context: LogContext, settings: Settings, tick: NewestTick | None, namespaces: Sequence[str] = ()
) -> Sequence[RecommendedContainer]:
    if tick is None:
        return []
    rows = recommendation_table.read(context, tick.at, namespaces, heartbeat=settings.vertical.heartbeat)
    return request_totals.marked(rows, request_totals.policies_in_force(context))


def lines(rows: Sequence[RecommendedContainer], form: OutputForm, limit: int | None = None) -> Iterator[str]:
    """The lines to print."""
    shown = rows[:limit]
    columns = (*_COLUMNS, *_LAST)
    if form in (*output_table.PEOPLE, "md"):
        return output_table.lines(form, [_shown(row) for row in shown], (), columns, _SPARE)
    return output_table.lines(form, (), [_exact(row) for row in shown], columns)


def _shown(row: RecommendedContainer) -> Row:
    return {
        "namespace": row.namespace,
        "workload": f"{row.kind}/{row.workload}",
        "pods": row.pods,
        "container": row.container,
        "cpu now → target": f"{_now(row, 'cpu')} → {_text(row.target, 'cpu')}",
        "cpu bounds": _bounds(row, "cpu"),
        "memory now → target": f"{_now(row, 'memory')} → {_text(row.target, 'memory')}",
        "memory bounds": _bounds(row, "memory"),
        "saved cpu": _text(row.saved, "cpu"),
        "saved memory": _text(row.saved, "memory"),
        "risk": row.risk,
        "why": row.remark,
    }


def _now(row: RecommendedContainer, resource: str) -> str:
    """What pods request: the least and the most, where they differ."""
    ends = None if row.of_pods is None else row.of_pods.ends(resource)
    if ends is None:
        return _text(row.requests or Amounts(), resource)
    least, most = (event_descriptions.amount(**{resource: end}) for end in ends)
    unit = most.partition(" ")[2]
    # the unit once, where both ends have it
    return f"{least.removesuffix(f' {unit}') if unit else least}..{most}".replace(".0 ", " ").replace(".0.", ".")


def _bounds(row: RecommendedContainer, resource: str) -> str:
    return f"{_text(row.lower, resource)}..{_text(row.upper, resource)}"


def _ends(row: RecommendedContainer, resource: str) -> tuple[float | None, float | None]:
    """The least and the most that pods request, also where these are the same."""
    same = getattr(row.requests or Amounts(), resource)
    ends = None if row.of_pods is None else row.of_pods.ends(resource)
    return (same, same) if ends is None else ends


def _exact(row: RecommendedContainer) -> Row:
    requests = row.requests or Amounts()
    amounts = requests, row.target, row.lower, row.upper, row.saved
    return {
        "namespace": row.namespace,
        "kind": row.kind,
        "workload": row.workload,
        "container": row.container,
        "pods": row.pods,
        # without the last digits of a difference of floats
        **{name: None if (cpu := amount.cpu) is None else round(cpu, 9) for name, amount in zip(_CORES, amounts, strict=True)},
        **{name: amount.memory for name, amount in zip(_BYTES, amounts, strict=True)},
        **{
            f"{end}_{name}": None if row.of_pods is None else amount
            for resource, name in (("cpu", "requests_cpu_cores"), ("memory", "requests_memory_bytes"))
            for end, amount in zip(("least", "most"), _ends(row, resource), strict=True)
        },
        "risk": row.risk,
        "why": row.why,
        **dict(zip(("cpu_over_request", "memory_over_request"), row.over, strict=True)),
        "held_back": row.held_back,
        "held_by": row.held_by,
        "held_because": "; ".join(dict.fromkeys(cap.sentence for cap in row.caps)),
        "other_recommender": row.other_recommender,
    }


def _text(amounts: Amounts, resource: str) -> str:
    amount = getattr(amounts, resource)
    if amount is None:
        return "-"
    if resource == "cpu" and abs(amount) >= _MANY_CORES and not event_descriptions.is_unbounded(cpu=amount):
        return f"{amount:.1f} cores"
    return f"{'-' if amount < 0 else ''}{event_descriptions.amount(**{resource: abs(amount)})}"


def summary(rows: Sequence[RecommendedContainer], cluster: str) -> str:
    """One sentence on all rows."""
    if not rows:
        return (
            f"nothing is recommended for cluster '{cluster}' yet: `ullage status` says what is waited for. "
            "The first figures come a minute or two after the first usage"
        )
    risky = sum(row.risk == "high" for row in rows)
    ours, freed = counted(len(rows), "container"), request_totals.in_words(rows)
    whole = f"{ours}; by these targets {freed}; {risky} at high risk as they are"
    others = {row.other_recommender for row in rows} - {""}
    if not others:
        return whole
    count = sum(bool(row.other_recommender) for row in rows)
    names = ", ".join(f"'{name}'" for name in sorted(others))
    theirs = counted(count, "container")
    return (
        f"{whole}; {theirs} with a VPA of another recommender ({names}): shown for comparison, never acted on. "
        "To hand one over, name ours in its spec.recommenders"
    )
