"""Questions to an external expander, and what becomes of the answers.

A stage asks nobody: the question is a decision, a consumer of its own puts it to the server, and the answer comes back as an
outcome, which a replay finds in the log. Until then the pods wait. An answer serves one choice among the groups that were asked
about. When none comes in time, or none that can be used, the next expander of the list decides, as in upstream, and nobody is
asked again for a minute, so that a server that hangs costs each pod one delay and no more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.engine.turn import Decided, Recorded
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import AskedExpander
from agents.logic.nodes.growth.expanders import ExpanderOption
from agents.logic.nodes.growth.scale_up import ExpanderQuestion, ScaleUp
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from agents.logic.nodes.scheduling.pod_shapes import PodShape, SchedulablePod
from schemas import times
from schemas.decisions.node_updates import ExpanderAsked, OfferedGroup, OfferedPods, OfferedTaint
from schemas.outcomes import Action, ActionFinished, Result

LASTS = 60.0
"""Seconds for which an answer, or the lack of one, counts."""
MOST_GROUPS = 200
"""Groups of one question; where more could grow, nobody is asked."""
MOST_KINDS = 100
"""Kinds of pods that a question tells of, those that wait longest first; of the others nothing is said."""
MOST_NAMES = 500
"""Pods that a question names altogether."""
_MOST_REASON = 500
_LATE = "no answer came within {:.0f} s"
_MANY = f"more than {MOST_GROUPS} groups could grow"
_UNUSABLE = "its answer names none of the groups that it was asked about"


def ingest(state: ScalerState, recorded: Iterable[Recorded], now: float) -> None:
    """Take in the answers; one to an earlier question than the last counts for nothing."""
    for record in recorded:
        event = record.event
        if not isinstance(event, ActionFinished) or event.action is not Action.ASK_EXPANDER:
            continue
        cluster = event.subject.cluster
        asked = state.asked.get(cluster)
        if asked is None or asked.id != event.decision or not asked.open:
            continue
        # A server may name whatever it likes.
        kept = tuple(group for group in asked.groups if group in set(event.groups)) if event.result is Result.DONE else ()
        failed = "" if kept else event.reason[:_MOST_REASON] if event.result is not Result.DONE else _UNUSABLE
        state.asked.upsert(cluster, replace(asked, kept=kept, failed=failed, since=now, place=record.place))
        state.call(cluster, now)


def expire(state: ScalerState, now: float) -> None:
    """Give up what nobody answered in time, and forget what is old."""
    for cluster, asked in list(state.asked.items()):
        if asked.open and now > asked.until:
            state.asked.upsert(cluster, replace(asked, failed=_LATE.format(asked.until - asked.since), since=now))
            state.call(cluster, now)
        elif not asked.open and now > asked.since + LASTS:
            state.asked.remove(cluster)


def plans(state: ScalerState, context: PlanContext, scale_up: ScaleUp, pods: Sequence[SchedulablePod]) -> list[Decided]:
    """The question that a decision leaves open, unless its answer is awaited. `pods`: those that the decision was about."""
    cluster, now, question = context.cluster, context.turn.number / 1000, scale_up.question
    asked = state.asked.get(cluster)
    if asked is not None and asked.kept and scale_up.choices:
        state.asked.remove(cluster)
        asked = None
    if question is None:
        return []
    groups = tuple(sorted(option.group for option in question.options))
    if asked is not None and asked.open and asked.groups == groups:
        return []
    # All questions of one delay have one end: however often the groups change that could grow, pods wait no longer.
    until = asked.until if asked is not None and now < asked.until else now + context.settings.expander_timeout
    identifier = context.id("ask-expander", "groups")
    if len(groups) > MOST_GROUPS:
        state.asked.upsert(cluster, AskedExpander(identifier, groups, now, until, failed=_MANY))
        state.call(cluster, now)
        return []
    state.asked.upsert(cluster, AskedExpander(identifier, groups, now, until))
    places = tuple(context.view.groups[group].place for group in groups)
    return [context.decided(_event(context, identifier, until, question, pods), *places)]


def _event(
    context: PlanContext, identifier: str, until: float, question: ExpanderQuestion, pods: Sequence[SchedulablePod]
) -> ExpanderAsked:
    left, kinds = MOST_NAMES, []
    for shape, places in question.shapes[:MOST_KINDS]:
        names = tuple(pods[place].name for place in places[:left])
        left -= len(names)
        kinds.append(_pods(shape, names))
    return ExpanderAsked(
        id=identifier,
        at=context.turn.at,
        expires=times.from_seconds(until),
        cluster=context.cluster,
        groups=tuple(_group(option, question.placed[option.group][:MOST_KINDS]) for option in question.options),
        pods=tuple(kinds),
        because={"waiting": len(context.view.inputs.waiting), "expanders": context.settings.expanders},
    )


def _pods(shape: PodShape, names: tuple[str, ...]) -> OfferedPods:
    return OfferedPods(shape.namespace, dict(shape.labels), dict(shape.node_selector), dict(shape.requests), names)


def _group(option: ExpanderOption, counts: Sequence[int]) -> OfferedGroup:
    node = option.template
    return OfferedGroup(
        option.group,
        option.nodes,
        tuple(counts),
        dict(node.labels),
        tuple(OfferedTaint(taint.key, taint.value, taint.effect) for taint in node.taints),
        dict(node.capacity),
        dict(node.allocatable),
    )
