"""Takes one node away: mark, wait, evict, wait until the pods are gone, terminate this very instance; or remove the marks.

Done means that AWS shows the instance as ending or ended.

Each call of `act` looks at AWS and the cluster, does the next thing, and raises TryAgain until the last is done: no state is kept
here that a restart would lose, and several nodes can go at the same time. Pods only go through the eviction API, so disruption
budgets hold to the end. Source of the steps: core/scaledown/actuation.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason
from schemas.outcomes import OutcomeDetail, Result
from schemas.units import Seconds, counted
from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.group_responses import GroupInstance
from streams.clients.kube.event_recorder import RecordEvent, record_nothing
from streams.clients.kube.node_drain_client import DrainableNode, NodeDrainClient, NodePod
from streams.consumers.executing.handler import ActPermit, HandlerResult
from streams.consumers.nodes import group_size, node_events, removal_marks
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.errors import EdgeError, GiveUp, TryAgain, UnderWay, Unreachable


@dataclass(frozen=True, slots=True)
class NodeWorld:
    """Groups in AWS, nodes, CapacityBuffers and Events in the cluster, and real time: pods and taints know no other."""

    aws: AwsClient
    nodes: NodeDrainClient
    buffers: CapacityBufferClient
    now: Callable[[], datetime]
    record: RecordEvent = record_nothing


HOOK = "delay-deletion.cluster-autoscaler.kubernetes.io/"
SUSPENDED = "its process 'Terminate' is suspended, so AWS ends no instance of it"
_SOON = Seconds(1.0)
_EVICT_AGAIN = Seconds(5.0)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """Seconds: from the taint to the first eviction, beyond a pod's grace, and for hooks; and evictions of a node at one time."""

    cordon: bool = True
    delay: Seconds = Seconds(5.0)
    gone_margin: Seconds = Seconds(30.0)
    hooks: Seconds = Seconds(120.0)
    evictions: int = 8
    protect: bool = True


class NodeRemoval:
    """Removals on one cluster and one AWS account."""

    def __init__(self, world: NodeWorld, permit: ActPermit, options: RemovalOptions | None = None) -> None:
        """`permit` is asked before the node is marked, before each eviction, and before the instance ends."""
        self._aws, self._nodes, self._now, self._record = world.aws, world.nodes, world.now, world.record
        self._permit, self._options = permit, options or RemovalOptions()
        self._since: dict[tuple[str, str], datetime] = {}
        """When steps of a removal began that the node does not tell; a restart begins them again."""

    def act(self, plan: NodeRemovalPlanned) -> HandlerResult | None:
        """Do the next step; None after the last. Raises TryAgain while there is one, and GiveUp."""
        instance = self._instance(plan)
        if isinstance(instance, HandlerResult):
            return instance
        if not plan.node:
            return self._end_without_node(plan, instance)
        node = self._nodes.node(plan.node)
        if node is None or node.uid != plan.node_uid or node.provider_id != plan.provider_id:
            return _moved(f"node '{plan.node}' with uid '{plan.node_uid}' and id '{plan.provider_id}' is gone")
        mark = removal_marks.read(node)
        if mark is None and (plan.id, "marks") not in self._since:
            return self._begin(plan, node)
        if mark is None or mark.since is None or mark.digest != removal_marks.digest(plan.id):
            other = mark is not None and mark.digest not in ("", removal_marks.digest(plan.id))
            # Whoever takes marks off wants the node to serve, and would do so again a second later.
            what = "it goes by another decision" if other else "somebody took the marks of its removal off"
            return _moved(f"node '{plan.node}': {what}")
        taken = (self._now() - mark.since).total_seconds()  # the taint says since when, so a restart loses nothing
        if taken < self._options.delay:
            raise _wait(plan, "the scheduler gets time to see the taint", Seconds(self._options.delay - taken))
        return self._drain(plan, node, instance, taken)

    def look(self, plan: NodeRemovalPlanned) -> HandlerResult | str:
        """The result for an instance that is gone; for any other, what AWS shows. Raises TryAgain and GiveUp."""
        instance = self._instance(plan)
        return (
            instance
            if isinstance(instance, HandlerResult)
            else f"instance '{plan.instance}' is {instance.lifecycle} in its group"
        )

    def undo(self, plan: NodeRemovalPlanned) -> None:
        """Remove this removal's marks from the node, if it has them and is not ending. Raises TryAgain and GiveUp."""
        self._forget(plan)
        try:
            instance = self._instance(plan)
        except UnderWay:  # the node goes with its instance, whatever it is marked with
            return
        if isinstance(instance, HandlerResult) and instance.result is Result.DONE:
            return
        node = self._nodes.node(plan.node) if plan.node else None
        mark = None if node is None else removal_marks.read(node)
        if node is not None and mark is not None and mark.digest in ("", removal_marks.digest(plan.id)):
            self._nodes.change(node, **removal_marks.removed(node))

    def _end_without_node(self, plan: NodeRemovalPlanned, instance: GroupInstance) -> HandlerResult | None:
        """Terminate an instance that never became a node."""
        # If it became one meanwhile, its pods would die with it.
        here = self._nodes.of_instance(plan.instance)
        if here is not None:
            return _moved(f"instance '{plan.instance}' is node '{here}', of which the plan does not know")
        return self._terminate(plan, instance)

    def _instance(self, plan: NodeRemovalPlanned) -> GroupInstance | HandlerResult:
        """The instance while it runs in its group; else the result. Raises UnderWay while it is on its way out."""
        member = self._aws.group_instance(plan.instance)
        if member is None or member[1].leaving:
            state = self._aws.instance_states([plan.instance]).get(plan.instance)
            if state is None or state.gone:
                return _gone(plan)
        if member is None:
            return _moved(f"instance '{plan.instance}' runs and is in no group any more")
        group, instance = member
        if instance.warm:
            reason = f"instance '{plan.instance}' went back to the warm pool of group '{group}'"
            return HandlerResult(Result.DONE, reason, OutcomeDetail.ALREADY_DONE)
        if group != plan.group:
            return _moved(f"instance '{plan.instance}' is in group '{group}', expected '{plan.group}'")
        if instance.lifecycle.startswith("Terminat"):  # we ended it, or others did
            answer = f"instance '{plan.instance}' is {instance.lifecycle} in its group"
            raise UnderWay(doing="removing node", to=plan.node or plan.instance, answer=answer, after=_SOON)
        if not instance.lifecycle.startswith(("InService", "Pending")):
            return _moved(f"instance '{plan.instance}' is {instance.lifecycle} in its group")
        return instance

    def _begin(self, plan: NodeRemovalPlanned, node: DrainableNode) -> HandlerResult:
        """Mark the node, unless there is an obstacle."""
        if removal_marks.foreign(node, self._now()):
            return _moved(f"somebody else is taking node '{plan.node}' away")
        strange = self._strange(plan, self._nodes.pods(node.name))
        if strange is not None:
            return strange
        at_limit = self._at_limit(plan)
        # AWS takes an interrupted instance anyway, so its pods are better off leaving early, even in a group at its minimum.
        if at_limit is not None and plan.reason is not RemovalReason.INTERRUPTED:
            return at_limit
        marks = removal_marks.added(node, plan.id, at=self._now(), cordon=self._options.cordon)
        self._check_permit(plan)
        self._nodes.change(node, **marks)
        self._waited(plan, "marks")
        raise _wait(plan, "the node was marked", self._options.delay)

    def _drain(
        self, plan: NodeRemovalPlanned, node: DrainableNode, instance: GroupInstance, taken: float
    ) -> HandlerResult | None:
        """Evict what is still there, then wait until it is gone."""
        pods, options = self._nodes.pods(node.name), self._options
        strange = self._strange(plan, pods)
        if strange is not None:
            return strange
        wanted = {pod.uid for pod in plan.evict}
        remaining = [pod for pod in pods if pod.pod.uid in wanted and not pod.finished]
        bound = [pod for pod in remaining if not pod.leaving]
        # Once all are evicted, they get their grace to end in.
        limit = options.delay + plan.drain + (0 if bound else plan.grace + options.gone_margin)
        # The kubelet of a broken node confirms no pod's end, so what was evicted there is not waited for for ever.
        if remaining and taken > limit and not (plan.reason is RemovalReason.BROKEN and not bound):
            why = f"after {taken:.0f} s there still are {_named(remaining)}"
            node_events.record_kept(self._record, plan, why)
            # Only a budget keeps a pod from being evicted for so long: any other refusal ends the removal at once.
            return HandlerResult(Result.FAILED, why, OutcomeDetail.BUDGET if bound else OutcomeDetail.NONE)
        if bound:
            refused = self._evict(plan, bound)
            if refused is not None:
                raise _wait(plan, f"{_named(bound)} still to be evicted: {refused}", _EVICT_AGAIN, refused.detail)
        if remaining and taken <= limit:
            raise _wait(plan, f"{_named(remaining)} still there", _SOON)
        self._wait_for_daemons(plan, pods)
        self._wait_for_hooks(plan, node)
        return self._terminate(plan, instance)

    def _evict(self, plan: NodeRemovalPlanned, pods: Sequence[NodePod]) -> TryAgain | None:
        """Evict all of these at the same time; returns what refused one of them for now. Raises Unreachable, GiveUp."""
        # All at one time, as upstream's drain does: a pod whose budget refuses must not hold up the others.
        with ThreadPoolExecutor(self._options.evictions) as pool:
            answers = list(pool.map(lambda pod: self._evicted(plan, pod), pods))
        final = next((answer for answer in answers if isinstance(answer, GiveUp | Unreachable)), None)
        if final is not None:
            raise final
        return next((answer for answer in answers if isinstance(answer, TryAgain)), None)

    def _evicted(self, plan: NodeRemovalPlanned, pod: NodePod) -> EdgeError | None:
        try:
            self._check_permit(plan)
            self._nodes.evict(pod.pod, Seconds(min(pod.grace, plan.grace)))
        except EdgeError as error:
            gone = isinstance(error, GiveUp) and error.detail in (OutcomeDetail.NOT_FOUND, OutcomeDetail.MOVED)
            return None if gone else error
        node_events.record_drained(self._record, plan, pod.pod)
        return None

    def _wait_for_daemons(self, plan: NodeRemovalPlanned, pods: Sequence[NodePod]) -> None:
        """Evict the pods of DaemonSets and give them their time."""
        wanted = {pod.uid for pod in plan.daemons}
        remaining = [pod for pod in pods if pod.pod.uid in wanted and not pod.finished]
        if not remaining:
            return
        if (plan.id, "daemons") not in self._since:
            for pod in remaining:
                self._evicted(plan, pod)
        longest = min(plan.grace, max(pod.grace for pod in remaining))
        if self._waited(plan, "daemons") < longest:  # after that they go with the node
            raise _wait(plan, f"{_named(remaining)} of DaemonSets still there", _SOON)

    def _wait_for_hooks(self, plan: NodeRemovalPlanned, node: DrainableNode) -> None:
        hooks = [key for key in node.annotations if key.startswith(HOOK)]
        if hooks and self._waited(plan, "hooks") < self._options.hooks:
            raise _wait(plan, f"annotation '{hooks[0]}' holds the node", _SOON)

    def _check_permit(self, plan: NodeRemovalPlanned) -> None:
        self._permit.check("removing node", plan.node or plan.instance)

    def _waited(self, plan: NodeRemovalPlanned, step: str) -> float:
        """Seconds since this step was first reached."""
        now = self._now()
        return (now - self._since.setdefault((plan.id, step), now)).total_seconds()

    def _forget(self, plan: NodeRemovalPlanned) -> None:
        for step in ("marks", "daemons", "hooks"):
            self._since.pop((plan.id, step), None)

    def _terminate(self, plan: NodeRemovalPlanned, instance: GroupInstance) -> HandlerResult | None:
        at_limit = self._at_limit(plan)
        if plan.reason is RemovalReason.INTERRUPTED and (at_limit is not None or self._taken_by_aws(plan)):
            reason = f"node '{plan.node}' is empty; AWS takes instance '{plan.instance}', and its group starts another one"
            return HandlerResult(Result.DONE, reason, OutcomeDetail.APPLIED)
        at_minimum = at_limit is not None and at_limit.detail is OutcomeDetail.AT_LIMIT
        replaced = at_minimum and plan.reason is RemovalReason.UNREGISTERED  # it is no node, so the group lacks one already
        if at_limit is not None and not replaced:
            return at_limit
        self._check_permit(plan)
        if instance.protected:
            self._aws.protect(plan.group, [plan.instance], protected=False)
        try:
            self._aws.terminate(plan.instance, replaced=replaced)
        except GiveUp as error:
            node_events.record_kept(self._record, plan, str(error))
            raise
        node_events.record_removal(self._record, plan)
        self._forget(plan)
        return None

    def _taken_by_aws(self, plan: NodeRemovalPlanned) -> bool:
        """Whether AWS has started a successor already, so that a lower size would cost the group a further node."""
        group = self._aws.group(plan.group)
        return group is not None and group.rebalances

    def _at_limit(self, plan: NodeRemovalPlanned) -> HandlerResult | None:
        """The result for a group that may not shrink; None for any other, whose instances are protected from its own choice."""
        group = self._aws.group(plan.group)
        if group is None:
            return _moved(f"group '{plan.group}' is gone")
        hindrance = group.unscalable or (SUSPENDED if "Terminate" in group.suspended else "")
        if hindrance:
            return HandlerResult(Result.REFUSED, f"group '{plan.group}': {hindrance}", OutcomeDetail.INVALID)
        if group.desired <= group.least:
            reason = f"group '{plan.group}' wants {counted(group.desired, 'node')}, and may not have less than {group.least}"
            return HandlerResult(Result.REFUSED, reason, OutcomeDetail.AT_LIMIT)
        if self._options.protect:
            group_size.protect_instances(self._aws, group)
        return None

    def _strange(self, plan: NodeRemovalPlanned, pods: Sequence[NodePod]) -> HandlerResult | None:
        """The result for a node with pods that the plan does not know of; None for any other."""
        planned = {pod.uid for pod in (*plan.evict, *plan.daemons)}
        # The scheduler was faster than the taint; whether such a pod has another place was not considered.
        new = [pod for pod in pods if not (pod.pod.uid in planned or pod.stays or pod.finished or pod.leaving)]
        return _moved(f"node '{plan.node}' has {_named(new)}, which the plan does not know of") if new else None


def _moved(what: str) -> HandlerResult:
    return HandlerResult(Result.REFUSED, f"it moved: {what}", OutcomeDetail.MOVED)


def _gone(plan: NodeRemovalPlanned) -> HandlerResult:
    return HandlerResult(Result.DONE, f"instance '{plan.instance}' is terminated", OutcomeDetail.ALREADY_DONE)


def _wait(plan: NodeRemovalPlanned, why: str, after: Seconds, detail: OutcomeDetail = OutcomeDetail.NONE) -> TryAgain:
    return TryAgain(doing="removing node", to=plan.node or plan.instance, answer=why, after=after, detail=detail)


def _named(pods: Sequence[NodePod]) -> str:
    """Some of the pods by name, and how many there are."""
    names = ", ".join(f"'{pod.pod.namespace}/{pod.pod.name}'" for pod in pods[:_SHOWN])
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return f"{'pod' if len(pods) == 1 else 'pods'} {names}{more}"
