"""What a refusal of a Kubernetes API server means: whether asking again makes sense.

The rule is only here, so that the real client and the simulated cluster cannot disagree. It judges the status code, with two
exceptions.
"""

from collections.abc import Collection
from http import HTTPStatus

import msgspec

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds
from streams.errors import GiveUp, Outdated, TryAgain


class ApiStatusCause(msgspec.Struct, frozen=True, gc=False):
    """One cause of a refusal, by its machine-readable name."""

    reason: str = ""


class ApiStatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a Status that may ask for a pause and name causes."""

    retry_after_seconds: float = 0
    causes: list[ApiStatusCause] = []


class ApiStatus(msgspec.Struct, frozen=True, gc=False):
    """The Status object with which a server refuses."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: ApiStatusDetails | None = None


RETRY_AFTER = Seconds(10.0)
"""How long to wait when the server does not say."""

BUDGET_CAUSE = "DisruptionBudget"
"""What the API server names as the cause when a disruption budget is used up."""
_CAUSES = {BUDGET_CAUSE: OutcomeDetail.BUDGET, "NodeCapacity": OutcomeDetail.INFEASIBLE}
_CODES = {
    HTTPStatus.UNAUTHORIZED: OutcomeDetail.FORBIDDEN,
    HTTPStatus.FORBIDDEN: OutcomeDetail.FORBIDDEN,
    HTTPStatus.NOT_FOUND: OutcomeDetail.NOT_FOUND,
    HTTPStatus.CONFLICT: OutcomeDetail.MOVED,
    HTTPStatus.TOO_MANY_REQUESTS: OutcomeDetail.THROTTLED,
    HTTPStatus.BAD_REQUEST: OutcomeDetail.INVALID,
    HTTPStatus.UNPROCESSABLE_ENTITY: OutcomeDetail.INVALID,
}
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
# 401 is among these: somebody renews a token that has expired, while a right that is missing (403) stays missing.
_TRY_AGAIN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


def error_for_status(  # noqa: PLR0913  # a refusal has these parts
    *, doing: str, to: str, code: int, message: str, after: Seconds | None = None, causes: Collection[str] = ()
) -> TryAgain | GiveUp:
    """The error for a status code of 300 or more. `after` is the pause that the server asked for, `causes` are what it named."""
    answer, detail = f"{code} {message}".strip(), _detail(code, message, causes)
    # The eviction API answers 500 for a pod that several budgets select, and waiting does not help there. Nor does it for a
    # conflict about the uid, because a uid never comes back.
    if detail is not OutcomeDetail.SEVERAL_BUDGETS and (
        code in _TRY_AGAIN
        or code >= HTTPStatus.INTERNAL_SERVER_ERROR
        or (code == HTTPStatus.CONFLICT and "uid" not in message.lower())
    ):
        return TryAgain(doing=doing, to=to, answer=answer, after=RETRY_AFTER if after is None else after, detail=detail)
    if code == HTTPStatus.GONE:
        return Outdated(doing=doing, to=to, answer=answer, detail=detail)
    return GiveUp(doing=doing, to=to, answer=answer, detail=detail)


def _detail(code: int, message: str, causes: Collection[str]) -> OutcomeDetail:
    named = next((_CAUSES[cause] for cause in causes if cause in _CAUSES), None)
    if named is not None:
        return named
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        several = code == HTTPStatus.INTERNAL_SERVER_ERROR and _SEVERAL_BUDGETS in message
        return OutcomeDetail.SEVERAL_BUDGETS if several else OutcomeDetail.SERVER_ERROR
    return _CODES.get(HTTPStatus(code), OutcomeDetail.NONE) if code in set(HTTPStatus) else OutcomeDetail.NONE
