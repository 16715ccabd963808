"""The pods for which CapacityBuffers want room, as pods that wait for nothing, and what each buffer's status is to show.

Such a pod is made from the PodTemplate that the buffer names, or like the newest pod of its workload, or, where that has none,
from the workload's own template. Nodes are kept and groups grow for it as for a pod that waits, and it never comes: a real pod
that takes its place lets the group grow for it again. How many pods a buffer means is upstream's sum (translators/replicas.go in
capacitybuffer): the least of its replicas, its percentage of the workload's pods, rounded down, and what its limits leave room
for. Quotas of its namespace may leave room for fewer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.engine.turn import Recorded
from agents.logic.nodes.cluster import fact_conversion, planned_replicas
from agents.logic.nodes.cluster.planned_replicas import QuotaRoom
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import KnownBuffer
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod
from schemas.facts.nodes import ACTIVE_CAPACITY, BufferShown, CapacityBufferGone, CapacityBufferSeen
from schemas.facts.update_facts import ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.names import Place
from schemas.well_known_labels import SAFE_TO_EVICT

TOPIC = "scheduling-changes"
BUFFER = "buffer"
"""The part of a plan's key that says that it is about the status of a buffer."""
STRATEGIES = ("", ACTIVE_CAPACITY)
"""Buffers of other strategies are for other controllers, and left as they are."""
READY = "ready"


class _UnclearBufferError(Exception):
    """The sentence why it is not known which pods a buffer means."""


@dataclass(frozen=True, slots=True)
class BufferPods:
    """The pods of all buffers of a cluster, where the fact stands that each follows from, and what each buffer is to show."""

    pods: Sequence[SchedulablePod] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    statuses: Mapping[str, BufferShown] = field(default_factory=dict)
    """By the buffer's key."""


def ingest(state: ScalerState, recorded: Sequence[Recorded], now: float) -> None:
    """Keep the newest fact about each buffer; a change of what it wants calls for a decision."""
    for record in recorded:
        match record.event:
            case CapacityBufferSeen() as event:
                key = _key(event)
                before = state.buffers.get(key)
                # Apart from the status that we wrote ourselves, which would call for a decision that writes it again.
                same = before is not None and replace(before.fact, at=event.at, shown=event.shown) == event
                since = before.since if before is not None and same else now
                state.buffers.upsert(key, KnownBuffer(event, record.place, since))
                _settle(state, event, changed=before is None or before.fact.shown != event.shown)
                if not same:
                    state.call(event.cluster, now)
            case CapacityBufferGone() as event:
                state.buffers.remove(_key(event))
                state.plans.remove(_plan_key(event))
            case ResourceQuotaChanged() as event:
                state.quotas.upsert(event.key, event)
            case ResourceQuotaRemoved() as event:
                state.quotas.remove(event.key)
            case _:
                pass


def _settle(state: ScalerState, event: CapacityBufferSeen, *, changed: bool) -> None:
    """A plan for a status is over when a fact shows another one, or when it was carried out."""
    plan = state.plans.get(_plan_key(event))
    if plan is not None and (plan.done or changed):
        state.plans.remove(_plan_key(event))


def _key(event: CapacityBufferSeen | CapacityBufferGone) -> str:
    return f"{event.cluster}/{event.namespace}/{event.name}"


def _plan_key(event: CapacityBufferSeen | CapacityBufferGone) -> str:
    """Of the plan for a buffer's status, in the table of open plans."""
    return f"{event.cluster}/{BUFFER}/{event.namespace}/{event.name}"


def pods(state: ScalerState, cluster: str, most: int, successors: Mapping[PodNature, PodNature], quotas: QuotaRoom) -> BufferPods:
    """The pods that the buffers of a cluster mean, `most` at most: buffers that are older have theirs first.

    A pod that is like those of a workload asks for what their `successors` will. They take of `quotas` what they may have.
    """
    buffers = {key: known for key, known in state.buffers.items() if key.startswith(f"{cluster}/")}
    buffers = {key: known for key, known in buffers.items() if known.fact.strategy in STRATEGIES}
    workloads = {_workload(known.fact): key for key, known in buffers.items() if known.fact.workload_kind}
    shapes = planned_replicas.shapes_of(state, workloads) if workloads else {}
    made: list[SchedulablePod] = []
    places: dict[str, Place] = {}
    statuses: dict[str, BufferShown] = {}
    # By age, so that no new buffer can take what an old one has.
    for key, known in sorted(buffers.items(), key=lambda item: (item[1].since, item[0])):
        fact = known.fact
        about = BufferShown(ready=False, template=fact.template_name, generation=fact.template_generation)
        try:
            nature, there = _nature(state, fact, shapes.get(_workload(fact), ()), successors)
            count = _count(fact, nature, there)
        except _UnclearBufferError as error:
            statuses[key] = replace(about, message=str(error))
            continue
        count, limited = quotas.allowed(fact.namespace, nature, count)
        number = min(count, most - len(made))
        cut = f"only {number} of {count}: more pods are not counted beside those that wait (nodes.most_planned)"
        statuses[key] = replace(about, ready=True, replicas=number, message=READY if number == count else cut, limited=limited)
        mine = [SchedulablePod(f"{fact.name} (buffer {place + 1})", nature, "Pending") for place in range(number)]
        places.update({pod.key: known.place for pod in mine})
        made += mine
    return BufferPods(made, places, statuses)


def _workload(fact: CapacityBufferSeen) -> str:
    return f"{fact.cluster}/{fact.namespace}/{fact.workload_kind}/{fact.workload_name}"


def _nature(
    state: ScalerState, fact: CapacityBufferSeen, shapes: Sequence[str], successors: Mapping[PodNature, PodNature]
) -> tuple[PodNature, int]:
    """What the buffer's pods are like, and how many pods its workload has. Raises _UnclearBufferError."""
    index = state.ready_index()
    if shapes:
        nature = planned_replicas.new_nature(index, planned_replicas.newest(index, shapes))
        nature = successors.get(nature, nature)
        there = sum(index.staying(shape) for shape in shapes)
    elif fact.template is not None:
        nature, there = fact_conversion.nature(fact.template), 0
    elif fact.unseen:
        raise _UnclearBufferError(f"the source's account may not list {fact.unseen}, so what it names cannot be seen")
    elif fact.workload_kind:
        who = f"{fact.workload_kind} '{fact.workload_name}'"
        raise _UnclearBufferError(f"no pod of {who} was seen that the buffer's pods could be like, and no template of it")
    else:
        missing = f"there is no PodTemplate '{fact.template_name}' in namespace '{fact.namespace}'"
        raise _UnclearBufferError(missing if fact.template_name else "it names neither a PodTemplate nor a workload")
    # Nobody has to evict what does not exist, so it keeps no node: its place may be on another one.
    return replace(nature, annotations={**nature.annotations, SAFE_TO_EVICT: "true"}, local=()), there


def _count(fact: CapacityBufferSeen, nature: PodNature, there: int) -> int:
    """For how many pods there is to be room. Raises _UnclearBufferError."""
    bounds = [] if fact.replicas is None else [max(fact.replicas, 0)]
    if fact.percentage is not None and fact.workload_kind:
        bounds.append(max(fact.percentage, 0) * there // 100)
    if fact.limits is not None:
        asked = {name: amount for name, amount in nature.shape.requests if amount > 0 and name in fact.limits}
        if not asked:
            raise _UnclearBufferError("its limits name no resource that its pods request")
        bounds += [max(fact.limits[name], 0) // amount for name, amount in asked.items()]
    if not bounds:
        raise _UnclearBufferError("it says neither replicas nor a percentage of its workload nor limits")
    return min(bounds)
