"""The error family, on one page.

UllageError
├── TryAgain        it may work later: wait `after` seconds and ask again
│   ├── Unreachable   nobody answered, so the next question will not be answered either
│   └── UnderWay      the other side has accepted it and is not done with it yet
├── GiveUp          it will not work; asking again is useless
│   └── Outdated      the question rests on something that no longer exists: begin again
├── BadRecord       bytes in the log that cannot be read as the event they claim to be; goes to dead-letters
│   └── ForgedPlan    a plan that no turn made
├── BadInput        a file, flag or setting that makes no sense; the sentence names the value and the place
├── LogUnavailable  the log cannot be reached or refuses; the sentence says what to do
└── RecordsRefused  the log will never take some records, and took all others; beside the port of the log, whose records it holds

Every message is a sentence that says what was being done, to what, and what the other side answered.
"""

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds
from streams.answer_bounds import pause
from streams.url_redaction import without_password


class UllageError(Exception):
    """Anything this project raises on purpose."""


class EdgeError(UllageError):
    """A call to the outside world did not do what was asked."""

    def __init__(self, *, doing: str, to: str, answer: str, detail: OutcomeDetail = OutcomeDetail.NONE) -> None:
        """`doing` is a gerund phrase ("evicting"), `to` names the object, `answer` quotes the other side, `detail` sorts it."""
        to, answer = without_password(to), without_password(answer)  # clients quote the URL that they were given
        super().__init__(f"{doing} '{to}' did not work: {answer}")
        self.doing, self.to, self.answer, self.detail = doing, to, answer, detail


class TryAgain(EdgeError):
    """It may work later: wait `after` seconds."""

    def __init__(self, *, doing: str, to: str, answer: str, after: Seconds, detail: OutcomeDetail = OutcomeDetail.NONE) -> None:
        """As EdgeError; `after` in seconds, of which no more count than anybody may make us wait."""
        super().__init__(doing=doing, to=to, answer=answer, detail=detail)
        self.after = pause(after)


class Unreachable(TryAgain):
    """There was no answer, so the caller holds back all its requests to that server."""


class UnderWay(TryAgain):
    """The other side has accepted the request and is working on it or has put it off; `answer` is its sentence about that."""


class GiveUp(EdgeError):
    """It will not work; asking again is useless."""


class Outdated(GiveUp):
    """The question rests on something that no longer exists on the other side, such as an old version: begin again."""


class BadRecord(UllageError):
    """A record cannot be read. `path` says where in the value ("$.pod.uid"), as far as known."""

    def __init__(self, reason: str, path: str = "$") -> None:
        """`reason` is a sentence without the place; the place in the log is the record's own."""
        super().__init__(f"{reason} (at {path})")
        self.reason, self.path = reason, path


class ForgedPlan(BadRecord):
    """A plan that no turn made: somebody else put it into the log, and nobody carries it out."""


class BadInput(UllageError):
    """A file, flag or setting makes no sense; the sentence names the value and the place."""


class LogUnavailable(UllageError):
    """The log cannot be reached or refuses; the sentence says what to do."""
