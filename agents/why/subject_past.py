"""The past of a pod, a VPA or a workload: what ended there, and what the log has of one about which nothing was decided."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from agents.logic.vertical.vertical_settings import NAME as RECOMMENDER
from agents.why import event_descriptions, harm
from agents.why.harm import Harm, WorkloadPast
from agents.why.node_decisions import Decode, Mentioning
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaSeen, ScaleSeen
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished
from schemas.policies.control import StageRulesChanged
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged, VpaRemoved
from schemas.units import counted
from streams import truncated_topics
from streams.log_context import LogContext


def names_of(workload: Workload) -> tuple[str, ...]:
    """The names of a workload, from its key to its name alone."""
    namespaced = f"{workload.namespace}/{workload.name}"
    return workload.key, f"{workload.namespace}/{workload.kind}/{workload.name}", namespaced, workload.name


def undecided(query: str, mentioning: Mentioning, decode: Decode, *, lost: str = "") -> str | None:
    """A sentence about a pod, VPA or workload of this name (as `why` takes it); None if no fact names one.

    `lost` says which recommendations the log no longer has; empty if it has them all.
    """
    about = (_pod, _vpa, partial(_workload, lost=lost))
    return next((description for describe in about if (description := describe(query, mentioning, decode)) is not None), None)


def _pod(query: str, mentioning: Mentioning, decode: Decode) -> str | None:
    newest: PodChanged | PodDeleted | None = None
    for event in _pods(query, mentioning, decode):
        pod = event.pod
        # A name may be of any pod that there ever was, so the newest is meant.
        if query in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}") and (newest is None or event.at >= newest.at):
            newest = event
    if newest is None:
        return None
    pod, workload = newest.pod, newest.workload
    name, above = f"{pod.namespace}/{pod.name}", f"{workload.namespace}/{workload.kind}/{workload.name}"
    if isinstance(newest, PodDeleted):
        return f"pod '{name}' of {above} is gone, and nothing was decided about it; `ullage why {above}` explains its workload"
    return (
        f"nothing was decided about pod '{name}' yet, so there is no change to explain: `ullage why-not {name}` says what "
        f"holds it back, and `ullage why {above}` what is recommended for its workload"
    )


def _vpa(query: str, mentioning: Mentioning, decode: Decode) -> str | None:
    newest: VpaChanged | VpaRemoved | None = None
    for record in mentioning(query.rpartition("/")[2], "policies"):
        event = decode(record)
        named = isinstance(event, VpaChanged | VpaRemoved) and query in (event.key, f"{event.namespace}/{event.name}")
        if named and isinstance(event, VpaChanged | VpaRemoved) and (newest is None or event.at >= newest.at):
            newest = event
    if newest is None:
        return None
    name = f"{newest.namespace}/{newest.name}"
    if isinstance(newest, VpaRemoved):
        return f"VPA '{name}' is gone, and nothing was decided about it"
    ours, reference = _recommender(mentioning, decode), newest.target_ref
    target = "NAMESPACE/KIND/NAME" if reference is None else f"{newest.namespace}/{reference.kind}/{reference.name}"
    if not newest.served_by(ours):
        return (
            f"VPA '{name}' is served by the recommender '{newest.recommender}', and ours is '{ours}', so its status is left to "
            f"that one: `ullage why {target}` says what we would recommend, and nobody acts on it"
        )
    if newest.unsupported:
        return f"VPA '{name}' cannot be served: {newest.unsupported}"
    return f"nothing was decided about VPA '{name}' yet: `ullage status` says whether a worker is at work"


def _workload(query: str, mentioning: Mentioning, decode: Decode, *, lost: str) -> str | None:
    pods_by_workload: Counter[str] = Counter()
    # By uid, so that those that were deleted meanwhile count no more.
    pods: dict[str, PodChanged] = {}
    for event in _pods(query, mentioning, decode):
        if isinstance(event, PodChanged):
            pods[event.pod.uid] = event
        else:
            pods.pop(event.pod.uid, None)
    for event in pods.values():
        if query in names_of(event.workload):
            pods_by_workload[event.workload.key] += 1
    if not pods_by_workload:
        return None
    # Several workloads may be called so; the largest is the likeliest to be meant.
    [(key, count), *_] = pods_by_workload.most_common()
    pods_of = counted(count, "pod")
    if lost:
        return f"no recommendation for '{key}' is kept, which has {pods_of}; {lost}"
    return (
        f"nothing is recommended for '{key}' yet, which has {pods_of}: the first figures come a minute or two after its first "
        f"usage, and `ullage status` says what is waited for; `ullage why-not workload {key.partition('/')[2]}` says what holds "
        "its pods back"
    )


def _pods(query: str, mentioning: Mentioning, decode: Decode) -> Iterator[PodChanged | PodDeleted]:
    for record in mentioning(query.rpartition("/")[2], "pod-changes-by-cluster"):
        event = decode(record)
        if isinstance(event, PodChanged | PodDeleted):
            yield event


def _recommender(mentioning: Mentioning, decode: Decode) -> str:
    """The name under which the workers serve VPAs, by the rules in the log."""
    rules = [
        event
        for record in mentioning(RECOMMENDER, "rules")
        if isinstance(event := decode(record), StageRulesChanged) and event.stage == RECOMMENDER
    ]
    newest = max(rules, key=lambda event: event.at, default=None)
    return DEFAULT_RECOMMENDER if newest is None else str(newest.settings.get("recommender", DEFAULT_RECOMMENDER))


_TOPICS = ("pod-changes", "oom-events", "pod-updates", "replica-plans", "node-updates", "outcomes")


def read(context: LogContext, workload: str, mentioning: Mentioning) -> WorkloadPast:
    """The past of a workload, by its key. Raises LogUnavailable."""
    events, seen = list[object](), set[str]()
    name = Workload.parse(workload).name
    # A node's removal names no workload: it is found by what only it has, and compared by cluster.
    texts = {"outcomes": (workload, '"remove-node"'), "node-updates": ('"provider_id"',)}
    for topic in _TOPICS:
        for text in texts.get(topic, (f'"{name}"',)):
            for record in mentioning(text, topic):
                event = context.codec.decode_or_none(record)
                # A name is a part of other names, and an id may be repeated after a crash.
                if _is_of(event, workload) and (ident := getattr(event, "id", "")) not in seen:
                    events.append(event)
                    seen |= {ident} - {""}
    starts = truncated_topics.late_starts(context.log, context.topics, _TOPICS)
    return WorkloadPast(events, max((start.at for start in starts if start.at is not None), default=None))


def harms(context: LogContext, query: str, event: object, mentioning: Mentioning) -> Iterator[Harm]:
    """What ended in the workload that an event is about, if that was asked about; of a pod or a kill, what ended there."""
    workload = event_descriptions.workload_of(event) if isinstance(event, Event) else None
    if workload is None:
        return
    try:
        names = names_of(Workload.parse(workload))
    except ValueError:  # no workload that there can be: no stage takes such a record in, but the log may have it
        return
    name, whole = query.rpartition("/")[2], query in names
    pod = getattr(event, "pod", None)
    if not whole and pod is not None and query in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}"):
        name = pod.name
    elif not whole and not isinstance(event, ContainerOOMKilled):
        return  # asked about one decision by its id or place, which has its own causes and outcomes
    past = read(context, workload, mentioning)
    if isinstance(event, ContainerOOMKilled) and name not in (event.pod.name, event.pod.uid):
        yield harm.kill_of(past, event)
        return
    yield from (ended for ended in harm.of_workload(past) if whole or ended.pod == name)


def _is_of(event: object, workload: str) -> bool:
    match event:
        case (
            HpaSeen()
            | ScaleSeen()
            | PodChanged()
            | PodDeleted()
            | ContainerOOMKilled()
            | ResizePlanned()
            | UpdateRefused()
            | ReplicasPlanned()
        ):
            return event.workload.key == workload
        case NodeRemovalPlanned():
            return event.cluster == workload.partition("/")[0]
        case ActionFinished(action=Action.REMOVE_NODE):
            return event.subject.cluster == workload.partition("/")[0]
        case ActionFinished():
            return event.subject.workload == workload
        case _:
            return False
