"""The evictor: evicts a pod through the eviction API, so that disruption budgets hold, if nothing changed since the decision.

Done means that the cluster shows the pod as going or gone, whoever did it. A pod whose requests are not those that the decision
expected is left alone, and so is every pod while no webhook is running that would change its successor's requests.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from schemas.decisions.pod_updates import EvictionPlanned
from schemas.names import Amounts
from schemas.outcomes import Action, OutcomeDetail, Result
from streams.clients.cluster_port import ClusterClient, find_live
from streams.clients.kube.event_recorder import RecordEvent, record_eviction, record_nothing, spelled
from streams.clients.kube.json_objects import ObjectStore
from streams.clients.kube.quantities import same
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import ActPermit, Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import GiveUp
from streams.log_context import LogContext

FindObjection = Callable[[], str | None]
"""Why nobody may be evicted now, as a sentence; None when nothing speaks against it. Raises TryAgain and GiveUp."""


def nothing_objects() -> None:
    """For a cluster whose admission always works, such as the simulated one."""


# Without a webhook the successor would come back unchanged and be evicted again. Upstream's updater checks the Lease of its own
# webhook in the same way (pkg/utils/status/status_validator.go).
class AdmissionLease:
    """The Lease `name` among `objects`. It counts until it is older than `most`; `now` gives the real time."""

    def __init__(self, objects: ObjectStore, name: str, *, most: timedelta, now: Callable[[], datetime]) -> None:
        self._objects, self._name, self._most, self._now = objects, name, most, now

    def objection(self) -> str | None:
        """Why nobody may be evicted now; None when nothing speaks against it. Raises TryAgain and GiveUp."""
        lease = self._objects.find(self._name)
        if lease is None:
            return f"no webhook is at work that would change the pod's successor: there is no Lease '{self._name}'"
        renewed = _time((lease.get("spec") or {}).get("renewTime")) or _time(lease["metadata"].get("creationTimestamp"))
        if renewed is None:
            return f"whether a webhook is at work cannot be said: Lease '{self._name}' has no time that can be read"
        age = self._now() - renewed
        if -self._most <= age <= self._most:  # two machines' clocks may differ a little
            return None
        if age < timedelta(0):
            return f"whether a webhook is at work cannot be said: Lease '{self._name}' was renewed at {renewed}, which is ahead"
        return (
            "no webhook is at work that would change the pod's successor: "
            f"Lease '{self._name}' was renewed {age.total_seconds():.0f} s ago, and {self._most.total_seconds():g} s are the most"
        )


def _time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


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
            requests, expected = spelled(now, plan.expect)
            reason = f"it moved: the pod requests {requests}, expected {expected}"
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
