"""The evictor: evicts a pod through the eviction API, so that disruption budgets hold, if nothing changed since the decision.

Done means that the cluster shows the pod as going or gone, whoever did it. A pod whose requests are not those that the decision
expected is left alone, and so is every pod while no webhook is running that would change its successor's requests.
"""

from schemas.decisions.pod_updates import EvictionPlanned
from schemas.names import Amounts
from schemas.outcomes import Action, OutcomeDetail, Result
from streams.clients.cluster_port import ClusterClient, find_live
from streams.clients.kube.event_recorder import RecordEvent, record_nothing
from streams.clients.kube.quantities import same
from streams.consumers.executing.act_permit import ActPermit
from streams.consumers.executing.amount_texts import spelled
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.pods.admission_lease import FindObjection, nothing_objects
from streams.consumers.pods.pod_events import record_eviction
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
    evictions = Evictions(client, permit, objection, record)
    return Executor(
        context,
        Handler("pod-updates", EvictionPlanned, Action.EVICT, act=evictions.act, look=evictions.look),
        permit=permit,
    )


class Evictions:
    """Asks for evictions, and looks whether their pods go. Both calls raise TryAgain and GiveUp."""

    def __init__(
        self,
        client: ClusterClient,
        permit: ActPermit,
        objection: FindObjection = nothing_objects,
        record: RecordEvent = record_nothing,
    ) -> None:
        """`permit` is asked before an eviction; `record` writes Kubernetes Events."""
        self._client, self._permit, self._objection, self._record = client, permit, objection, record

    def act(self, plan: EvictionPlanned) -> HandlerResult | None:
        """Look, check the permit, act, then record Events."""
        pod = find_live(self._client, plan.pod)
        if pod is None:
            return _gone(plan)
        seen = {container.name: container.requests for container in pod.containers}
        now = {name: seen.get(name, Amounts()) for name in plan.expect}
        if not same(now, plan.expect):
            reason = f"it moved: the pod requests {spelled(now)}, expected {spelled(plan.expect)}"
            return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
        # Before each eviction; upstream asks once a minute, and a webhook may go within one.
        if (objection := self._objection()) is not None:
            return HandlerResult(Result.REFUSED, objection, OutcomeDetail.NO_WEBHOOK)
        self._permit.check("evicting", f"{pod.pod.namespace}/{pod.pod.name}")
        try:
            self._client.evict(pod.pod)
        except GiveUp:  # it may have been the answer that the pod is gone
            if find_live(self._client, plan.pod) is None:
                return _gone(plan)
            raise
        record_eviction(self._record, plan)
        return None

    def look(self, plan: EvictionPlanned) -> HandlerResult | str:
        """The result for a pod that goes or is gone."""
        return _gone(plan) if find_live(self._client, plan.pod) is None else "the pod is there still"


def _gone(plan: EvictionPlanned) -> HandlerResult:
    reason = f"pod '{plan.pod.name}' with uid '{plan.pod.uid}' goes, or is gone"
    return HandlerResult(Result.DONE, reason, OutcomeDetail.ALREADY_DONE)
