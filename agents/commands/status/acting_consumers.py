"""Which consumer an outcome is of, by the name that its command has: people start and stop consumers, not kinds of acts."""

from collections.abc import Mapping

from schemas.outcomes import Action, ActionFinished, ObjectWritten, Outcome, StatusWritten

CONSUMERS: Mapping[Action, str] = {
    Action.PATCH: "webhook",
    Action.RESIZE: "resizer",
    Action.EVICT: "evictor",
    Action.SCALE: "autoscalers",
    Action.SCALE_UP: "asg",
    Action.REMOVE_NODE: "asg",
    Action.SOFT_TAINT: "asg",
    Action.CORRECT_SIZE: "asg",
    Action.BUFFER_STATUS: "asg",
}
_ONE_ACT = (Action.PATCH, Action.RESIZE, Action.EVICT)
"""The acts of consumers that have no other."""


def name_of(outcome: Outcome) -> str:
    """As `ullage consumer` calls it: `resizer`."""
    if isinstance(outcome, ActionFinished):
        return CONSUMERS[outcome.action]
    return "status" if isinstance(outcome, StatusWritten) else "autoscalers"


def result_of(outcome: Outcome) -> str:
    """What came of it, with the act if its consumer has several: `done`, `scale-up done`."""
    if isinstance(outcome, ObjectWritten):
        return f"{outcome.object_kind} {outcome.change} {outcome.result}"
    if isinstance(outcome, StatusWritten) or outcome.action in _ONE_ACT:
        return str(outcome.result)
    return f"{outcome.action} {outcome.result}"
