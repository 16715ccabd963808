"""Reads what the log has of one workload, its pods and its nodes, to judge what ended there."""

from collections.abc import Iterator

from agents.why import event_descriptions, harm, undecided_subjects
from agents.why.harm import Harm, WorkloadPast
from agents.why.node_decisions import Mentioning
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaSeen, ScaleSeen
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished
from streams import truncated_topics
from streams.log_context import LogContext

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
        names = undecided_subjects.names_of(Workload.parse(workload))
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
