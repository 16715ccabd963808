"""Why controllers cannot make the pods that they want: the condition of those that have one, else the events that they write.

A ReplicaSet and a ReplicationController have the condition `ReplicaFailure` from the first failure until a pod can be made again.
StatefulSets, DaemonSets and Jobs only write events, so the first event's message counts while fewer pods are there than wanted.
The text of the first failure stays: later ones name another pod each time, and would make a fact each time.
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

    def refusal(self, kind: str, found: AnyController) -> str:
        """What was answered when the controller could not make a pod; empty while it can."""
        name = _name(kind, found.metadata.namespace, found.metadata.name)
        if kind not in _EVENTS_ONLY or not isinstance(found, ControllerObject):
            failed = (
                condition for condition in found.status.conditions if (condition.type, condition.status) == (_CONDITION, "True")
            )
            return next((each.message[:LONGEST] for each in failed if each.reason == _REASON), "")
        if not _is_short(kind, found):
            self.forget(name)
            return ""
        self._short[name] = found
        return self._messages.get(name, "")

    def take(self, event: EventObject) -> tuple[str, ControllerObject] | None:
        """An event of a controller that could not make a pod: its kind and object, if that is news for it."""
        about = event.involved_object
        name = _name(about.kind, about.namespace, about.name)
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
