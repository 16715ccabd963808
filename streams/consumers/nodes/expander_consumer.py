"""The expander consumer: puts the scaler's questions to an external expander, and brings its answers into the log.

Whatever the server answers, the outcome holds only groups that were asked about.
"""

from typing import Protocol

from schemas.decisions.node_updates import ExpanderAsked
from schemas.outcomes import Action, OutcomeDetail, Result
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import Handler, HandlerResult
from streams.log_context import LogContext

TOPIC = "node-updates"


class BestOptions(Protocol):
    """Who is asked."""

    def best(self, asked: ExpanderAsked) -> list[str]:
        """The ids of the groups that should grow. Raises GiveUp."""


def expander_consumer(context: LogContext, server: BestOptions) -> Executor:
    """A consumer that asks this server."""
    # In every mode and during a pause, because asking changes nothing.
    handler = Handler(TOPIC, ExpanderAsked, Action.ASK_EXPANDER, act=lambda question: ask(server, question), always=True)
    return Executor(context, handler)


def ask(server: BestOptions, question: ExpanderAsked) -> HandlerResult:
    """Ask about the groups of a decision. An answer that names none of them is no answer, as in upstream. Raises GiveUp."""
    answered = server.best(question)
    groups, named = [group.group for group in question.groups], set(answered)
    kept = tuple(group for group in groups if group in named)
    unknown = len(named - set(groups))
    strangers = f"; {unknown} of its options are no groups that it was asked about" if unknown else ""
    if not kept:
        reason = f"it chose none of the {len(groups)} groups that it was asked about{strangers}"
        return HandlerResult(Result.FAILED, reason, OutcomeDetail.INVALID)
    return HandlerResult(
        Result.DONE, f"it chose {len(kept)} of {len(groups)} groups{strangers}", OutcomeDetail.APPLIED, groups=kept
    )
