"""Runs `ullage why-not`: why a pod is left as it is, asked of the updater's own state and guards at the end of the log."""

from collections.abc import Iterator

from agents.inspect.plan import newest_updater
from agents.logic.updates.pending_updates import WAITING, outlook
from agents.logic.updates.pending_updates import not_wanted as why_not_wanted
from agents.logic.updates.updater import Updater
from agents.processes.output import data
from agents.settings.tree import Settings
from schemas.names import PodName
from schemas.policies import control
from streams.errors import BadInput


def run(settings: Settings, asked: str) -> None:
    """Print the answer for one pod."""
    updater = newest_updater(settings)
    for line in _lines(updater, settings.cluster.name, _named(updater, settings.cluster.name, asked)):
        data(line)


def _named(updater: Updater, cluster: str, asked: str) -> PodName:
    """The pod by its uid, its name or NAMESPACE/NAME. Raises BadInput if there is none or there are several."""
    pods = [record.fact.pod for record in updater.clusters.pods.values() if record.fact.workload.cluster == cluster]
    found = [pod for pod in pods if asked in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}")]
    if not found:
        raise BadInput(f"no source has published a pod '{asked}' of cluster '{cluster}', or it is gone")
    if len(found) > 1:
        raise BadInput(f"'{asked}' may be any of {', '.join(sorted(f'{pod.namespace}/{pod.name}' for pod in found))}: say which")
    return found[0]


def _lines(updater: Updater, cluster: str, pod: PodName) -> Iterator[str]:
    name = f"{pod.namespace}/{pod.name}"
    mine = next((each for each in outlook(updater, cluster) if each.candidate.situation.pod.fact.pod.uid == pod.uid), None)
    if mine is None:
        yield f"{name} is left as it is: {why_not_wanted(updater, pod.uid)}"
        return
    wanted = " and ".join(reason.value for reason in mine.candidate.why)
    yield f"{name} should be changed ({wanted}), by {mine.candidate.action.value}"
    for each in mine.objections:
        yield f"  {'waits' if each.guard in WAITING else 'no'}: guard '{each.guard}' says: {each.reason}"
    held = updater.clusters.control.get(cluster)
    obstacle = control.objection(None if held is None else held.event, cluster)
    if obstacle is not None and "paused" not in {each.guard for each in mine.objections}:
        yield f"  no: {obstacle}"
    elif not mine.objections:
        yield "  nothing holds it back: the next interval plans for it"
