"""The resizer: changes a pod's requests and limits in place, if the pod is still the one that was decided about.

Done means that the cluster has accepted the new amounts; facts about the pod say later whether they are in force, deferred or
infeasible. A pod whose requests are not those that the decision expected is left alone.
"""

from schemas.decisions.pod_updates import ResizePlanned
from schemas.names import Amounts
from schemas.outcomes import Action, OutcomeDetail, Result
from streams.clients.cluster_port import ClusterClient, Pod, find_live
from streams.clients.kube.quantities import meets, same
from streams.consumers.executing.amount_texts import spelled
from streams.consumers.executing.executor import Executor, Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.executing.node_sizes import NodeSizes
from streams.consumers.pods import plan_bounds
from streams.consumers.pods.pod_events import Record, record_nothing, record_resize
from streams.log_context import LogContext


def resizer(
    context: LogContext, client: ClusterClient, lease: HolderLease | None = None, record: Record = record_nothing
) -> Executor:
    """A consumer that carries out ResizePlanned on `client`, while it holds the `lease` if there is one.

    `record` writes Kubernetes Events.
    """
    nodes = NodeSizes(context)
    return Executor(
        context,
        Handler(
            "pod-updates",
            ResizePlanned,
            Action.RESIZE,
            act=lambda plan: resize(client, plan, nodes.largest(), record),
            look=lambda plan: _already_asked(find_live(client, plan.pod), plan),
        ),
        lease=lease,
    )


def resize(
    client: ClusterClient, plan: ResizePlanned, largest_node: Amounts | None = None, record: Record = record_nothing
) -> HandlerResult:
    """Refuse what is absurd, look, then act, then say so in an Event. Raises TryAgain and GiveUp."""
    absurd = plan_bounds.objection(plan, largest_node)
    if absurd is not None:
        return HandlerResult(Result.REFUSED, absurd, OutcomeDetail.INVALID)
    pod = find_live(client, plan.pod)
    if pod is None:
        reason = f"it moved: pod '{plan.pod.name}' with uid '{plan.pod.uid}' is gone"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    already = _already_asked(pod, plan)
    if already is not None:
        return already
    seen = {container.name: container.requests for container in pod.containers}
    for what, requests in (("requests", seen), ("asks for", pod.asked_requests)):
        now = {name: requests.get(name, Amounts()) for name in plan.expect}
        if not same(now, plan.expect):
            reason = f"it moved: the pod {what} {spelled(now)}, expected {spelled(plan.expect)}"
            return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    client.resize(pod, requests=plan.requests, limits=plan.limits)
    record_resize(record, plan)
    return HandlerResult(Result.DONE, "the cluster accepted the new amounts", OutcomeDetail.ACCEPTED)


def _already_asked(pod: Pod | None, plan: ResizePlanned) -> HandlerResult | None:
    """The result for a pod that asks for the planned amounts; None for any other."""
    if pod is None or not (meets(pod.asked_requests, plan.requests) and meets(pod.asked_limits, plan.limits)):
        return None
    return HandlerResult(Result.DONE, "the pod asks for these amounts already", OutcomeDetail.ALREADY_DONE)
