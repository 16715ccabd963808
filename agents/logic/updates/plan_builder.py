"""The records of the updater: a plan or a refusal for one pod, with the numbers it rests on."""

from datetime import timedelta

from agents.engine.turn import Decided, Turn
from agents.logic.policies import body
from agents.logic.updates.candidate import Candidate, changes
from agents.logic.updates.guards import No, Scene
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.ids import DecisionId
from schemas.names import Amounts, Place
from schemas.outcomes import Action

NAME = "updater"


def plan(candidate: Candidate, scene: Scene, turn: Turn, partition: int) -> Decided:
    """ResizePlanned or EvictionPlanned."""
    fact = candidate.known.pod.fact
    requests, limits = changes(candidate.known)
    expect = {c.name: c.requests for c in fact.containers if c.name in requests}
    key = fact.pod.uid
    expires = turn.at + timedelta(seconds=scene.settings.expires)
    identity = str(DecisionId(NAME, partition, turn.number, candidate.action.value, key))
    because = _because(candidate, scene)
    if candidate.action is Action.RESIZE:
        event: ResizePlanned | EvictionPlanned = ResizePlanned(
            id=identity,
            at=turn.at,
            expires=expires,
            workload=fact.workload,
            pod=fact.pod,
            requests=requests,
            limits=limits,
            expect=expect,
            because=because,
        )
    else:
        event = EvictionPlanned(
            id=identity, at=turn.at, expires=expires, workload=fact.workload, pod=fact.pod, expect=expect, because=because
        )
    return Decided("pod-updates", fact.workload.cluster, event, _cause(candidate, scene))


def refusal(candidate: Candidate, scene: Scene, no: No, turn: Turn, partition: int) -> Decided:
    """UpdateRefused."""
    fact = candidate.known.pod.fact
    event = UpdateRefused(
        id=str(DecisionId(NAME, partition, turn.number, "refuse", fact.pod.uid)),
        at=turn.at,
        workload=fact.workload,
        pod=fact.pod,
        guard=no.guard,
        reason=no.reason,
        because=_because(candidate, scene),
    )
    return Decided("pod-updates", fact.workload.cluster, event, _cause(candidate, scene))


def _because(candidate: Candidate, scene: Scene) -> dict[str, object]:
    wanted = {c.container: c for c in candidate.known.recommended.containers}
    seen = [c for c in candidate.known.pod.fact.containers if c.name in wanted]
    return {
        "mode": scene.mode.value,
        "action": candidate.action.value,
        "why": list(candidate.why),
        "difference": candidate.known.difference.share,
        "scale_up": candidate.known.difference.scale_up,
        "recommendation": candidate.known.recommended.id,
        "policy": body(candidate.known.held),
        "containers": {
            c.name: {
                "requests": _body(c.requests),
                "lower": _body(wanted[c.name].lower),
                "target": _body(wanted[c.name].target),
                "upper": _body(wanted[c.name].upper),
            }
            for c in seen
        },
        "pods": {"cluster": _count(scene, "cluster"), "workload": _count(scene, "workload")},
        "budget": scene.budget,
    }


def _count(scene: Scene, of: str) -> dict[str, int]:
    count = scene.cluster if of == "cluster" else scene.workload
    return {"live": count.live, "running": count.running, "being_changed": count.acting}


def _body(amounts: Amounts) -> dict[str, float | None]:
    return {"cpu": amounts.cpu, "memory": amounts.memory}


def _cause(candidate: Candidate, scene: Scene) -> tuple[Place, ...]:
    control = () if scene.control is None else (scene.control.place,)
    return (candidate.known.pod.place, candidate.known.recommended.place, candidate.known.held.place, *control)
