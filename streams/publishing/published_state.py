"""What a cluster source published before, read from the log, so that a restart repeats nothing and notices what is gone.

It is read back once at a start, at most `MOST` of the newest records of each partition. A pod or node whose last record lies
further back and which was deleted while the source was down is not noticed, and an OOM kill further back is unknown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from schemas.catalogue import Event
from schemas.facts import update_facts
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaGone, HpaSeen
from schemas.facts.update_facts import HpaTargetChanged, HpaTargetRemoved, ObjectChanged, ObjectRemoved
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import PodName, Workload
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams import compacted_copy
from streams.log.log_port import Log, Record
from streams.log_context import LogContext

MOST = 200_000
"""Records of one partition to read back."""
REPUBLISH_AFTER = timedelta(hours=3)  # for what exists and does not change, so that it stays among those records


@dataclass(slots=True)
class PublishedState:
    """By uid: `pods` believed to exist, the `newest` record of each, and `kills`, the restart count of each last kill.

    By name or key: the newest record of each node, VPA and limit range.
    """

    pods: dict[str, tuple[Workload, PodName]] = field(default_factory=dict)
    newest: dict[str, PodChanged] = field(default_factory=dict)
    kills: dict[str, dict[str, int]] = field(default_factory=dict)
    nodes: dict[str, NodeChanged] = field(default_factory=dict)
    vpas: dict[str, VpaChanged] = field(default_factory=dict)
    limits: dict[str, LimitRangeChanged] = field(default_factory=dict)
    ehpas: dict[str, EhpaChanged] = field(default_factory=dict)
    predictions: dict[str, TimeSeriesPredictionChanged] = field(default_factory=dict)
    seen_hpas: dict[str, HpaSeen] = field(default_factory=dict)
    hpa_policies: dict[str, HpaTargetChanged] = field(default_factory=dict)
    """HPAs as published among the policies, for stages that read no facts about pods."""
    for_updates: dict[type[ObjectChanged], dict[str, ObjectChanged]] = field(default_factory=dict)
    """The facts of UPDATE_FACTS, by class and name of the object."""

    def published_for_updates(self, changed: type[ObjectChanged]) -> dict[str, ObjectChanged]:
        """The facts of one kind that the updater reads, by name of the object."""
        return self.for_updates.setdefault(changed, {})

    def record_pod(self, fact: PodChanged) -> None:
        """This fact about a pod is published."""
        self.pods[fact.pod.uid] = fact.workload, fact.pod
        self.newest[fact.pod.uid] = fact

    def record_kill(self, uid: str, container: str, restarts: int) -> bool:
        """This kill is published. Returns whether it is news, so whether it was not published before."""
        published = self.kills.setdefault(uid, {})
        news = restarts > published.get(container, -1)
        if news:
            published[container] = restarts
        return news

    def forget_pod(self, uid: str) -> None:
        """The pod is gone; its uid never comes back."""
        self.pods.pop(uid, None)
        self.newest.pop(uid, None)
        self.kills.pop(uid, None)

    def keep_namespaces(self, namespaces: Sequence[str]) -> None:
        """Forget other namespaces, so that their objects do not count as gone. No namespaces means all of them."""
        if not namespaces:
            return
        for uid in [uid for uid, (_, pod) in self.pods.items() if pod.namespace not in namespaces]:
            self.forget_pod(uid)
        for changed, facts in self.for_updates.items():
            self.for_updates[changed] = {name: fact for name, fact in facts.items() if fact.namespace in namespaces}
        self.hpa_policies = {name: hpa for name, hpa in self.hpa_policies.items() if hpa.namespace in namespaces}
        self.vpas = {key: vpa for key, vpa in self.vpas.items() if vpa.namespace in namespaces}
        self.ehpas = {key: ehpa for key, ehpa in self.ehpas.items() if ehpa.namespace in namespaces}
        self.predictions = {key: tsp for key, tsp in self.predictions.items() if tsp.namespace in namespaces}
        self.seen_hpas = {key: hpa for key, hpa in self.seen_hpas.items() if hpa.namespace in namespaces}
        self.limits = {key: limit for key, limit in self.limits.items() if limit.namespace in namespaces}


def read_pods(context: LogContext) -> PublishedState:
    """The pods and kills of the context's cluster. Raises LogUnavailable."""
    state = PublishedState()
    topics = context.topics
    partitions = [(topics.wire("oom-events"), partition) for partition in range(topics.partitions)]
    for topic, partition in (*partitions, context.cluster_partition("pod-changes-by-cluster")):
        for record in newest(context.log, topic, partition, MOST):
            _apply_pod_record(state, record, context)
    return state


def read_all(context: LogContext) -> PublishedState:
    """As `read_pods`, with nodes, VPAs and limit ranges. Raises LogUnavailable."""
    state = read_pods(context)
    # Policies are published once and never again. One that the source did not copy before it died counts as unpublished, and is
    # published again.
    policies: Iterable[Record] | None = compacted_copy.latest_of_copy(context.log, context.topics, "policies")
    if policies is None:
        policies = newest(context.log, context.topics.wire("policies"), 0, None)  # each partition has everything
    nodes = newest(context.log, context.topics.wire("cluster-changes"), 0, MOST)
    for record in (*policies, *nodes):
        _apply_object_record(state, record, context)
    return state


def _apply_pod_record(state: PublishedState, record: Record, context: LogContext) -> None:
    """A record that cannot be read is passed over; the stages set it aside."""
    event = context.codec.decode_or_none(record)
    if isinstance(event, ObjectChanged | ObjectRemoved):
        if event.cluster == context.cluster:
            _apply_for_updates(state, event)
        return
    if isinstance(event, HpaSeen | HpaGone):
        if event.workload.cluster == context.cluster:
            _apply_hpa(state, event)
        return
    if not isinstance(event, (PodChanged, PodDeleted, ContainerOOMKilled)) or event.workload.cluster != context.cluster:
        return
    if isinstance(event, PodChanged):
        state.record_pod(event)
    elif isinstance(event, PodDeleted):
        state.forget_pod(event.pod.uid)
    else:
        state.record_kill(event.pod.uid, event.container, event.restarts)


def _apply_hpa(state: PublishedState, event: HpaSeen | HpaGone) -> None:
    name = f"{event.namespace}/{event.name}"
    if isinstance(event, HpaSeen):
        state.seen_hpas[name] = event
    elif (published := state.seen_hpas.get(name)) is not None and published.workload == event.workload:
        del state.seen_hpas[name]


def _apply_for_updates(state: PublishedState, event: ObjectChanged | ObjectRemoved) -> None:
    name = update_facts.object_name(event)
    if isinstance(event, ObjectChanged):
        state.published_for_updates(type(event))[name] = event
    else:
        state.published_for_updates(update_facts.CHANGED[type(event)]).pop(name, None)


def _apply_object_record(state: PublishedState, record: Record, context: LogContext) -> None:
    event = context.codec.decode_or_none(record)
    match event:
        case NodeChanged(cluster=context.cluster):
            state.nodes[event.node] = event
        case NodeRemoved(cluster=context.cluster):
            state.nodes.pop(event.node, None)
        case VpaChanged(cluster=context.cluster):
            state.vpas[event.key] = event
        case VpaRemoved():
            state.vpas.pop(event.key, None)
        case LimitRangeChanged(cluster=context.cluster):
            state.limits[event.key] = event
        case LimitRangeRemoved():
            state.limits.pop(event.key, None)
        case HpaTargetChanged(cluster=context.cluster):
            state.hpa_policies[f"{event.namespace}/{event.name}"] = event
        case HpaTargetRemoved(cluster=context.cluster):
            state.hpa_policies.pop(f"{event.namespace}/{event.name}", None)
        case _:
            _apply_scaling_policy(state, event, context.cluster)


def _apply_scaling_policy(state: PublishedState, event: Event | None, cluster: str) -> None:
    match event:
        case EhpaChanged() if event.cluster == cluster:
            state.ehpas[event.key] = event
        case EhpaRemoved():
            state.ehpas.pop(event.key, None)
        case TimeSeriesPredictionChanged() if event.cluster == cluster:
            state.predictions[event.key] = event
        case TimeSeriesPredictionRemoved():
            state.predictions.pop(event.key, None)
        case _:
            pass


def newest(log: Log, topic: str, partition: int, most: int | None) -> Iterator[Record]:
    """The newest records of a partition in their order; all of them where `most` is None. Raises LogUnavailable."""
    end = log.end(topic, partition)
    position = max(log.begin(topic, partition), 0 if most is None else end - most)
    while position < end:
        records = log.poll({(topic, partition): position})
        if not records:
            return
        yield from records
        position = records[-1].offset + 1
