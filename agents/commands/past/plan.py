"""Runs `ullage plan`: what would be done to a cluster's pods and nodes if its mode were apply, from the log alone.

It asks the states of updater and scaler, with their guards, so it agrees with what agents would decide. Nothing is written.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from agents.commands.change import mode
from agents.commands.past.newest_state import cluster_states
from agents.logic.guards.guard_records import in_words
from agents.logic.nodes.scaler import scaling_dry_run
from agents.logic.nodes.scaler.scaling_dry_run import NodeOutlook
from agents.logic.updates import api_refusals
from agents.logic.updates import candidate as candidates
from agents.logic.updates.pending_updates import NoChange, PodOutlook, counted, no_change, outlook
from agents.logic.updates.updater import Updater
from agents.logic.updates.updater_records import PodRecord
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output_table import TextForm
from agents.why.event_descriptions import amount
from schemas import times, units
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode
from streams.clients.kube.quantities import merged

# What new pods of each workload would get from now on, by the updater's state: the webhook gives the same to a pod that begins.


@dataclass(frozen=True, slots=True)
class NewPodAmounts:
    """One container of a workload's new pods: what the owner asks for, and what it would get instead."""

    workload: str
    container: str
    before: Amounts
    after: Amounts


def new_pod_amounts(updater: Updater, cluster: str) -> Iterator[NewPodAmounts]:
    """By workload and container, where a new pod would get anything else than its owner asks for."""
    newest: dict[str, PodRecord] = {}
    for pod in updater.clusters.pods.values():
        key, newest_record = pod.fact.workload.key, newest.get(pod.fact.workload.key)
        # a pod without a controller has no template, and the webhook leaves it as it is
        if pod.fact.workload.kind == "Pod":
            continue
        # the newest pod shows best what the owner's template says now
        if pod.fact.workload.cluster == cluster and (newest_record is None or pod.fact.created > newest_record.fact.created):
            newest[key] = pod
    for key, pod in sorted(newest.items()):
        policy = updater.policies.of(key)
        governed = policy is not None and not policy.policy.foreign and policy.policy.patch_new_pods
        if policy is None or not governed or policy.policy.update_mode is UpdateMode.OFF or key in updater.clusters.reverts:
            continue
        # what the owner asked for is what its template says, and so where a new pod begins
        yield from _of_pod(updater, replace(pod, fact=api_refusals.unpatched(pod.fact)))


def _of_pod(updater: Updater, pod: PodRecord) -> Iterator[NewPodAmounts]:
    advised = updater.advised(pod) or {}
    for container in pod.fact.containers:
        target = advised[container.name].target if container.name in advised else Amounts()
        after = merged(container.requests, target)
        if after != container.requests:
            yield NewPodAmounts(pod.fact.workload.key, container.name, container.requests, after)


_VERB = {Action.RESIZE: "resized in place", Action.EVICT: "restarted"}


def run(settings: Settings, *, form: TextForm) -> None:
    """Print the plan for the cluster of the settings."""
    with cluster_states(settings) as states:
        updater = states.updater()
        scaler, turn = states.scaler()
    cluster = settings.cluster.name
    record = updater.clusters.control.get(cluster)
    control = None if record is None else record.event
    pods = list(outlook(updater, cluster))
    unchanged = _unchanged(updater, cluster, pods)
    nodes = scaling_dry_run.pending(scaler, cluster, turn) if turn >= 0 else None
    whole = {**_object(cluster, control, updater.turn, pods, unchanged), **_node_object(nodes)}
    # beside the plan: a pod that begins is patched also where no running one is changed
    begin = list(new_pod_amounts(updater, cluster))
    whole["new_pods"] = [
        {"workload": new.workload, "container": new.container, "from": asdict(new.before), "to": asdict(new.after)}
        for new in begin
    ]
    table = [*_lines(cluster, control, updater.turn, pods, unchanged), *_new_pod_lines(begin), *_node_lines(nodes)]
    output_table.print_text(form, table, whole)


def _unchanged(updater: Updater, cluster: str, pods: Sequence[PodOutlook]) -> Counter[NoChange]:
    """How many of the cluster's other pods need no change, and why."""
    listed = {pod.candidate.situation.pod.fact.pod.uid for pod in pods}
    others = (uid for uid, pod in updater.clusters.pods.items() if pod.fact.workload.cluster == cluster and uid not in listed)
    return Counter(no_change(updater, uid) for uid in others)


def _lines(
    cluster: str, control: ControlChanged | None, turn: int, pods: Sequence[PodOutlook], unchanged: Counter[NoChange]
) -> Iterator[str]:
    state = "shadow: nobody has set a mode" if control is None else mode.describe(control)
    applied = control is not None and control.mode is Mode.APPLY
    yield "This only looks: nothing is changed."
    yield f"cluster '{cluster}' is in mode {state}; at {times.from_ms(turn):%Y-%m-%d %H:%M:%S} UTC"
    yield "What will be done:" if applied else "What would be done if its mode were apply:"
    if not pods:
        yield "  nothing"
    for action, verb in _VERB.items():
        mine = [pod for pod in pods if pod.refused is None and pod.candidate.action is action]
        if mine:
            now = sum(not pod.objections for pod in mine)
            yield f"  {units.counted(len(mine), 'pod')} {verb}: {now} at once{_listed(_waiting(mine))}"
            yield from _by_workload(mine)
    refused = [pod for pod in pods if pod.refused is not None]
    if refused:
        yield f"  {units.counted(len(refused), 'pod')} left alone"
        yield from _refused(refused)
    if unchanged:
        yield f"  {units.counted(unchanged.total(), 'other pod')} {'needs' if unchanged.total() == 1 else 'need'} no change now"
        yield from (
            f"    {counted(why, number)}" for why, number in sorted(unchanged.items(), key=lambda item: (-item[1], item[0]))
        )


def _new_pod_lines(begin: Sequence[NewPodAmounts]) -> Iterator[str]:
    """What the webhook would give to pods that begin, whether or not a pod of today is changed."""
    if begin:
        yield "New pods would get:"
    for new in begin:
        yield f"  {new.workload.split('/', 1)[1]}  {new.container} {_change([(new.before, new.after)])}"


def _node_lines(nodes: NodeOutlook | None) -> Iterator[str]:
    """The plans for groups and nodes; nothing for a cluster whose nodes are not scaled."""
    if nodes is None:
        return
    yield "Nodes:"
    yield from (f"  held back: {reason}" for reason in nodes.held)
    for change in nodes.changes:
        when = ", planned already" if change.open else f", after 'budget': {change.waits}" if change.waits else ""
        if change.grows:
            why = f" for {units.counted(change.pods, 'pod')}" if change.pods else ""
            yield f"  group '{change.name}' from {change.before} to {units.counted(change.after, 'node')}{why}{when}"
        else:
            yield f"  node {change.name} goes{'' if change.open else f' ({change.reason})'}{when}"
    if not nodes.changes:
        yield "  nothing"


def _node_object(nodes: NodeOutlook | None) -> dict[str, object]:
    """The same for programs."""
    if nodes is None:
        return {}
    grow = [
        {"group": change.name, "from": change.before, "to": change.after, "pods": change.pods, "open": change.open}
        for change in nodes.changes
        if change.grows
    ]
    remove = [
        {"node": change.name, "reason": change.reason, "waits": change.waits or None, "open": change.open}
        for change in nodes.changes
        if not change.grows
    ]
    return {"nodes": {"grow": grow, "remove": remove, "held": list(nodes.held)}}


def _waiting(pods: Iterable[PodOutlook]) -> Counter[str]:
    return Counter(pod.waits.guard for pod in pods if pod.waits is not None)


def _listed(waiting: Counter[str]) -> str:
    return "".join(f", {count} after '{guard}'" for guard, count in sorted(waiting.items()))


def _by_workload(pods: Iterable[PodOutlook]) -> Iterator[str]:
    groups: dict[str, list[PodOutlook]] = {}
    for pod in pods:
        groups.setdefault(pod.candidate.situation.workload, []).append(pod)
    for workload, members in sorted(groups.items()):
        changed = {name: _change(amounts) for name, amounts in _by_container(members).items()}
        changes = "; ".join(f"{name} {change}" for name, change in changed.items() if change)
        yield f"    {workload.split('/', 1)[1]}  {units.counted(len(members), 'pod')}: {changes}"


def _by_container(pods: Iterable[PodOutlook]) -> Mapping[str, Sequence[tuple[Amounts, Amounts]]]:
    """What each container requests in each of these pods, and what it would request."""
    amounts: dict[str, list[tuple[Amounts, Amounts]]] = {}
    for pod in pods:
        requests, _ = candidates.changes(pod.candidate.situation)
        before = {container.name: container.requests for container in pod.candidate.situation.pod.fact.containers}
        for name, wanted in requests.items():
            amounts.setdefault(name, []).append((before[name], wanted))
    return amounts


def _change(amounts: Sequence[tuple[Amounts, Amounts]]) -> str:
    """In words."""
    # pods of one workload request different amounts after a change that only some of them got
    cpu = [(before.cpu, after.cpu) for before, after in amounts if after.cpu is not None]
    memory = [(before.memory, after.memory) for before, after in amounts if after.memory is not None]
    resources = (("cpu", cpu), ("memory", memory))
    ends = ((name, _span(name, changes, 0), _span(name, changes, 1)) for name, changes in resources if changes)
    return ", ".join(f"{name} {now} to {then}" if now != then else f"{name} {now} as now" for name, now, then in ends)


def _span(resource: str, changes: Sequence[tuple[float | None, float | None]], side: int) -> str:
    """The lowest and the highest amount on one side of some changes; an unset amount counts as lowest."""
    amounts = sorted((change[side] for change in changes), key=lambda end: -1.0 if end is None else end)
    least, most = (amount(**{resource: end}) for end in (amounts[0], amounts[-1]))
    return least if least == most else f"{least}..{most}"


def _refused(pods: Iterable[PodOutlook]) -> Iterator[str]:
    groups: dict[str, list[PodOutlook]] = {}
    for pod in pods:
        if pod.refused is not None:
            groups.setdefault(pod.refused.guard, []).append(pod)
    for guard, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        reasons = Counter(member.refused.reason for member in members if member.refused is not None)
        [(reason, _)] = reasons.most_common(1)
        more = f" (and {units.counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
        yield f"    {units.counted(len(members), 'pod')}: {in_words(guard, reason)}{more}"


def _object(
    cluster: str, control: ControlChanged | None, turn: int, pods: Sequence[PodOutlook], unchanged: Counter[NoChange]
) -> dict[str, object]:
    """For programs. Amounts are in cores and bytes."""
    wanted = [pod for pod in pods if pod.refused is None]
    return {
        "cluster": cluster,
        "mode": (Mode.SHADOW if control is None else control.mode).value,
        "paused": control is not None and control.paused,
        "at": times.rfc3339(times.from_ms(turn)),
        "summary": {
            "resized_in_place": sum(pod.candidate.action is Action.RESIZE for pod in wanted),
            "restarted": sum(pod.candidate.action is Action.EVICT for pod in wanted),
            "at_once": sum(not pod.objections for pod in wanted),
            "waiting": dict(sorted(_waiting(wanted).items())),
            "left_alone": dict(sorted(Counter(pod.refused.guard for pod in pods if pod.refused is not None).items())),
            "unchanged": {why.name.lower(): number for why, number in sorted(unchanged.items())},
        },
        "pods": [_pod(pod) for pod in pods],
    }


def _pod(pod: PodOutlook) -> dict[str, object]:
    situation = pod.candidate.situation
    requests, limits = candidates.changes(situation)
    objection = pod.refused or pod.waits
    return {
        "workload": situation.workload,
        "pod": situation.pod.fact.pod.name,
        "uid": situation.pod.fact.pod.uid,
        "action": "leave alone" if pod.refused is not None else _VERB[pod.candidate.action],
        "at_once": not pod.objections,
        "why": [reason.value for reason in pod.candidate.why],
        "from": {c.name: _amounts(c.requests) for c in situation.pod.fact.containers if c.name in requests},
        "to": {name: _amounts(request) for name, request in requests.items()},
        "limits": {name: _amounts(limit) for name, limit in limits.items()},
        "guard": None if objection is None else objection.guard,
        "reason": None if objection is None else objection.reason,
    }


def _amounts(amounts: Amounts) -> dict[str, float | None]:
    return {"cpu": amounts.cpu, "memory": amounts.memory}
