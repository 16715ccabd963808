"""Why controllers cannot make the pods that they want: the condition of those that have one, else the events that they write.

A ReplicaSet and a ReplicationController have the condition `ReplicaFailure` from the first failure until a pod can be made again.
StatefulSets, DaemonSets and Jobs only write events, so the first event's message counts while fewer pods are there than wanted.
"""

from collections import OrderedDict

from streams.clients.kube.watched_objects import ControllerObject, EventObject, ReplicationControllerObject

MOST = 10_000
"""Controllers whose events are kept."""
LONGEST = 500
"""Characters of an answer that are kept."""
_CONDITION, _REASON = "ReplicaFailure", "FailedCreate"
_EVENTS_ONLY = ("StatefulSet", "DaemonSet", "Job")
AnyController = ControllerObject | ReplicationControllerObject


class FailedCreations:
    """The newest state of the controllers that are short of pods, with the event that says why."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, str] = OrderedDict()
        self._short: dict[str, ControllerObject] = {}

    def refusal(self, kind: str, item: AnyController) -> str:
        """What was answered when the controller could not make a pod; empty while it can."""
        name = _name(kind, item.metadata.namespace, item.metadata.name)
        if kind not in _EVENTS_ONLY or not isinstance(item, ControllerObject):
            failed = (
                condition for condition in item.status.conditions if (condition.type, condition.status) == (_CONDITION, "True")
            )
            return next((condition.message[:LONGEST] for condition in failed if condition.reason == _REASON), "")
        if not _is_short(kind, item):
            self.forget(name)
            return ""
        self._short[name] = item
        return self._messages.get(name, "")

    def take(self, event: EventObject) -> tuple[str, ControllerObject] | None:
        """An event of a controller that could not make a pod: its kind and object, if that is news for it."""
        about = event.involved_object
        name = _name(about.kind, about.namespace, about.name)
        # The first one's text stays: later ones name another pod each time, and would make a fact each time.
        if event.reason != _REASON or about.kind not in _EVENTS_ONLY or name in self._messages:
            return None
        self._messages[name] = event.message[:LONGEST]
        if len(self._messages) > MOST:
            self._messages.popitem(last=False)
        short = self._short.get(name)
        return None if short is None else (about.kind, short)

    def forget(self, name: str) -> None:
        """A controller (kind/namespace/name) is gone, or has its pods."""
        self._short.pop(name, None)
        self._messages.pop(name, None)


def pods_of_job(controller: ControllerObject) -> int:
    """How many pods a Job still wants at one time; none once it has ended or while it is suspended."""
    ended = any(
        condition.type in ("Complete", "Failed") and condition.status == "True" for condition in controller.status.conditions
    )
    if ended or controller.spec.suspend:
        return 0
    parallel = 1 if controller.spec.parallelism is None else controller.spec.parallelism
    if controller.spec.completions is None:
        return 0 if controller.status.succeeded else parallel
    return max(0, min(parallel, controller.spec.completions - controller.status.succeeded))


_DEFAULT_BACKOFF_LIMIT = 6
"""SetDefaults_Job in Kubernetes, pkg/apis/batch/v1/defaults.go; without a limit for each index."""


def last_failure(controller: ControllerObject) -> str:
    """Why a Job would fail with one more pod that is evicted, as a clause; empty while it would make another one.

    An evicted pod counts as failed, unless the first rule that matches its condition DisruptionTarget ignores it. Source:
    exceedsBackoffLimit and matchPodFailurePolicy in Kubernetes, pkg/controller/job.
    """
    spec = controller.spec
    rules = () if spec.pod_failure_policy is None else spec.pod_failure_policy.rules
    evicted = (rule.action for rule in rules if any(pattern.type == "DisruptionTarget" for pattern in rule.on_pod_conditions))
    action = next(evicted, "Count")
    if action == "Ignore":
        return ""
    if action in ("FailJob", "FailIndex"):
        return f"its podFailurePolicy has the action {action} for a pod that is evicted"
    if spec.backoff_limit_per_index == 0:
        return "an evicted pod counts as failed, and its backoffLimitPerIndex is 0"
    limit = spec.backoff_limit
    if limit is None and spec.backoff_limit_per_index is None:
        limit = _DEFAULT_BACKOFF_LIMIT
    if limit is None or controller.status.failed < limit:
        return ""
    return f"an evicted pod counts as failed, {controller.status.failed} have failed, and its backoffLimit is {limit}"


def _is_short(kind: str, controller: ControllerObject) -> bool:
    match kind:
        case "DaemonSet":
            return controller.status.current_number_scheduled < controller.status.desired_number_scheduled
        case "Job":
            return controller.status.active < pods_of_job(controller)
        case _:
            return controller.status.replicas < (1 if controller.spec.replicas is None else controller.spec.replicas)


def _name(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"
