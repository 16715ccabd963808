"""Runs `ullage why-not`: why a pod, a workload's pods or a node are left as they are, from the stages' own state."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.commands.past.newest_state import ClusterStates, cluster_states
from agents.logic.guards.guard_records import WAITING, in_words
from agents.logic.updates.pending_updates import PodOutlook, loop_without_advice, outlook
from agents.logic.updates.pending_updates import not_wanted as why_not_wanted
from agents.logic.updates.updater import Updater
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import note
from agents.terminal.output_table import TextForm
from schemas.facts.pods import PodPhase
from schemas.names import PodName
from schemas.outcomes import Action
from schemas.policies import control
from schemas.policies.vertical import UpdateMode
from schemas.units import counted
from streams.errors import BadInput

if TYPE_CHECKING:
    from agents.logic.nodes.scaler.scaler_stage import Scaler
    from agents.logic.nodes.scaler.scaling_dry_run import ScalingObstacle

_NO_SCALING = (
    "node scaling is off for cluster '{}': set cluster.nodes=true for `ullage source kube`, "
    "and run `ullage source asg` (docs/nodes.md)"
)
_ACTIONS = {Action.RESIZE: "a resize in place", Action.EVICT: "eviction"}
_NEW_PODS = {UpdateMode.INITIAL: "its new pods get what is recommended", UpdateMode.OFF: "its new pods get nothing of it, either"}
KINDS = ("pod", "workload", "node")


def run(settings: Settings, asked: Sequence[str], form: TextForm = "table") -> None:
    """Print the answer for a pod or a workload (one word), or for the kind of thing that the first of two words names."""
    # a pod is NAMESPACE/NAME, so more slashes mean a workload
    kind_of_name = "workload" if asked[0].count("/") > 1 else "pod"
    kind, name = (kind_of_name, asked[0]) if len(asked) == 1 else (asked[0], asked[1])
    if kind not in KINDS:
        raise BadInput(f"'{kind}' is no kind of thing that is explained: say {', '.join(KINDS)}, and then its name")
    with cluster_states(settings) as states:
        cluster = states.context.cluster
        match kind:
            case "pod":
                lines = _about_pod(states, name)
            case "workload":
                key = name if name.startswith(f"{cluster}/") else f"{cluster}/{name}"
                lines = _workload_lines(states.updater(), cluster, key)
            case _:
                lines = _node_lines(*states.scaler(), cluster, name)
        answer = list(lines)
    output_table.print_text(form, answer, {"asked": " ".join(asked), "answer": [line.strip() for line in answer]})
    if settings.log.at and states.tick is not None:
        moment = f"{states.tick.at:%Y-%m-%d %H:%M:%S} UTC, the newest tick before {settings.log.at}"
        note(f"as it was at {moment}; without --at it is as it is now")


def _about_pod(states: ClusterStates, asked: str) -> Iterator[str]:
    """The scaler explains a pod that waits for a node, the updater any other pod."""
    updater, cluster = states.updater(), states.context.cluster
    workload = _workload_named(updater, cluster, asked)
    if workload is not None:
        yield from _workload_lines(updater, cluster, workload)
        return
    pods = _going_by(updater, cluster, asked)
    record = updater.clusters.pods.get(pods[0].uid) if len(pods) == 1 else None
    # the scaler's state is large, and is not read for what certainly waits for no node
    if record is not None and record.fact.phase is not PodPhase.PENDING:
        yield from _lines(updater, cluster, record.fact.pod)
        return
    from agents.logic.nodes.scaler import scaling_dry_run

    scaler, turn = states.scaler()
    waits = None if turn < 0 else scaling_dry_run.pod_waits(scaler, cluster, asked, turn)
    if waits is not None:
        yield f"{waits[0]} waits for a node"
        yield from _objections(waits[1], otherwise="nothing holds it back: a group grows for it with the next decision")
        return
    if f"{cluster}/{asked}" in scaler.clusters.nodes:  # a pod hardly ever has the name of a node of its cluster
        yield from _node_lines(scaler, turn, cluster, asked)
        return
    pod = _only(pods, cluster, asked)
    yield from _lines(updater, cluster, pod)
    if not _scales_nodes(scaler, cluster):
        yield f"  it is pending, and {_NO_SCALING.format(cluster)}"


def _scales_nodes(scaler: "Scaler", cluster: str) -> bool:
    """Whether the scaler knows any node of a cluster."""
    return any(key.startswith(f"{cluster}/") for key in scaler.clusters.nodes)


def _node_lines(scaler: "Scaler", turn: int, cluster: str, name: str) -> Iterator[str]:
    from agents.logic.nodes.scaler import scaling_dry_run

    obstacles = None if turn < 0 else scaling_dry_run.node_stays(scaler, cluster, name, turn)
    if obstacles is None and not _scales_nodes(scaler, cluster):
        raise BadInput(f"nothing is known of node '{name}': {_NO_SCALING.format(cluster)}")
    if obstacles is None:
        raise BadInput(f"no source has published a node '{name}' of cluster '{cluster}', or it is gone")
    yield f"node {name} is there"
    yield from _objections(obstacles, otherwise="nothing holds it: the next look plans its removal")


def _objections(obstacles: "Sequence[ScalingObstacle]", *, otherwise: str) -> Iterator[str]:
    for obstacle in obstacles:
        yield f"  no: {obstacle.code}: {obstacle.reason}"
        for key, value in obstacle.numbers.items():
            yield f"       {key}: {value}"
    if not obstacles:
        yield f"  {otherwise}"


def _workload_lines(updater: Updater, cluster: str, key: str) -> Iterator[str]:
    """Each pod of a workload in a word, equal ones together. Raises BadInput for a workload without pods."""
    pods = [record.fact.pod for record in updater.clusters.pods.values() if record.fact.workload.key == key]
    if not pods:
        raise BadInput(f"no source has published a pod of workload '{key}'; a workload is NAMESPACE/KIND/NAME")
    outlooks = _outlooks(updater, cluster)
    # hundreds of pods mostly have one answer between them
    answers = Counter(
        "; ".join(answer.strip() for answer in _answers(updater, cluster, pod, outlooks.get(pod.uid))) for pod in pods
    )
    for answer, count in answers.most_common():
        yield f"{counted(count, 'pod')} of {key}: {answer}"
    yield from _unpatched(updater, key)


def _workload_named(updater: Updater, cluster: str, asked: str) -> str | None:
    """The key of the one workload that goes by this name or NAMESPACE/NAME, where no pod goes by it; else None."""
    facts = [record.fact for record in updater.clusters.pods.values() if record.fact.workload.cluster == cluster]
    if any(asked in (fact.pod.uid, fact.pod.name, f"{fact.pod.namespace}/{fact.pod.name}") for fact in facts):
        return None
    workloads = {fact.workload for fact in facts}
    keys = {workload.key for workload in workloads if asked in (workload.name, f"{workload.namespace}/{workload.name}")}
    return keys.pop() if len(keys) == 1 else None


def _going_by(updater: Updater, cluster: str, asked: str) -> list[PodName]:
    """The pods with this uid, name or NAMESPACE/NAME."""
    pods = (record.fact.pod for record in updater.clusters.pods.values() if record.fact.workload.cluster == cluster)
    return [pod for pod in pods if asked in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}")]


def _only(pods: Sequence[PodName], cluster: str, asked: str) -> PodName:
    """The one pod that goes by this name. Raises BadInput if there is none or there are several."""
    if not pods:
        raise BadInput(f"no source has published a pod '{asked}' of cluster '{cluster}', or it is gone")
    if len(pods) > 1:
        raise BadInput(f"'{asked}' may be any of {', '.join(sorted(f'{pod.namespace}/{pod.name}' for pod in pods))}: say which")
    return pods[0]


def _outlooks(updater: Updater, cluster: str) -> Mapping[str, PodOutlook]:
    """The pods that should be changed, by uid."""
    return {pod.candidate.situation.pod.fact.pod.uid: pod for pod in outlook(updater, cluster)}


def _lines(updater: Updater, cluster: str, pod: PodName) -> Iterator[str]:
    mine = _outlooks(updater, cluster).get(pod.uid)
    first, *others = _answers(updater, cluster, pod, mine)
    yield f"{pod.namespace}/{pod.name}: {first}"
    yield from others
    record = updater.clusters.pods.get(pod.uid)
    # the guard's own objection has said it already
    if record is not None and not (mine is not None and any(objection.guard == "unpatched" for objection in mine.objections)):
        yield from _unpatched(updater, record.fact.workload.key)


def _unpatched(updater: Updater, workload: str) -> Iterator[str]:
    """That the webhook leaves new pods of the workload as they are, which holds a rollout, too."""
    pause = updater.clusters.unpatched.pause(workload, updater.turn)
    if pause is not None:
        yield f"  {pause.says(workload)}"


def _answers(updater: Updater, cluster: str, pod: PodName, mine: PodOutlook | None) -> Iterator[str]:
    """What will happen to a pod, and why, without its name."""
    if mine is None:
        yield f"left alone: {why_not_wanted(updater, pod.uid)}"
        return
    wanted = " and ".join(reason.value for reason in mine.candidate.why)
    yield f"should be changed ({wanted}), by {_ACTIONS[mine.candidate.action]}"

    for objection in mine.objections:
        yield f"  {'waits' if objection.guard in WAITING else 'no'}: {in_words(objection.guard, objection.reason)}"
        if (new := _NEW_PODS.get(mine.candidate.situation.policy.policy.update_mode)) and objection.guard == "mode":
            yield f"  {new}"
    situation = mine.candidate.situation
    loop = loop_without_advice(updater, situation.pod.fact, situation.policy)
    # another guard may have come before it, such as the mode
    if loop and not any(loop in objection.reason for objection in mine.objections):
        yield f"  no: {loop}"
    record = updater.clusters.control.get(cluster)
    obstacle = control.objection(None if record is None else record.event, cluster)
    # a pause that the guard has named would stand there twice
    if obstacle is not None and "paused" not in {objection.guard for objection in mine.objections}:
        yield f"  no: {obstacle}"
    elif not mine.objections:
        yield "  nothing holds it back: the next interval plans for it"
