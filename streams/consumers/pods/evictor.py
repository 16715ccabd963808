"""The evictor: evicts a pod through the eviction API, so that disruption budgets hold, if nothing changed since the decision.

A pod that is gone counts as done, whoever did it. A pod whose requests are not those that the decision expected is left alone,
and so is every pod while no webhook is running that would change its successor's requests.
"""

from schemas.decisions.pod_updates import EvictionPlanned
from schemas.names import Amounts, PodName
from schemas.outcomes import Action, OutcomeDetail, Result
from streams.clients.cluster_port import ClusterClient, find_live
from streams.clients.kube.quantities import same
from streams.consumers.executing.act_permit import ActPermit
from streams.consumers.executing.amount_texts import spelled
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.pods.admission_lease import FindObjection, nothing_objects
from streams.consumers.pods.pod_events import RecordEvent, record_eviction, record_nothing
from streams.errors import GiveUp
from streams.log_context import LogContext


def evictor(
    context: LogContext,
    client: ClusterClient,
    objection: FindObjection = nothing_objects,
    lease: HolderLease | None = None,
    record: RecordEvent = record_nothing,
) -> Executor:
    """A consumer that carries out EvictionPlanned on `client`, unless `objection` has one, while it holds the `lease` if any.

    `record` writes Kubernetes Events.
    """
    permit = ActPermit(lease)
    return Executor(
        context,
        Handler(
            "pod-updates",
            EvictionPlanned,
            Action.EVICT,
            act=lambda plan: evict(client, plan, permit, objection=objection, record=record),
            look=lambda plan: None if find_live(client, plan.pod) else _already_gone(plan.pod),
        ),
        permit=permit,
    )


def evict(
    client: ClusterClient,
    plan: EvictionPlanned,
    permit: ActPermit,
    *,
    objection: FindObjection = nothing_objects,
    record: RecordEvent = record_nothing,
) -> HandlerResult:
    """Look, check the permit, act, then record Events. Raises TryAgain and GiveUp."""
    pod = find_live(client, plan.pod)
    if pod is None:
        return _already_gone(plan.pod)
    seen = {container.name: container.requests for container in pod.containers}
    now = {name: seen.get(name, Amounts()) for name in plan.expect}
    if not same(now, plan.expect):
        reason = f"it moved: the pod requests {spelled(now)}, expected {spelled(plan.expect)}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    if (objected := objection()) is not None:
        return HandlerResult(Result.REFUSED, objected, OutcomeDetail.NO_WEBHOOK)
    permit.check("evicting", f"{pod.pod.namespace}/{pod.pod.name}")
    try:
        client.evict(pod.pod)
    except GiveUp:
        if find_live(client, plan.pod) is None:
            return _already_gone(plan.pod)
        raise
    record_eviction(record, plan)
    return HandlerResult(Result.DONE, "the cluster accepted the eviction", OutcomeDetail.ACCEPTED)


def _already_gone(pod: PodName) -> HandlerResult:
    reason = f"pod '{pod.name}' with uid '{pod.uid}' is gone already"
    return HandlerResult(Result.DONE, reason, OutcomeDetail.ALREADY_DONE)
