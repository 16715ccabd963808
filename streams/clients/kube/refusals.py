"""What a refusal of a Kubernetes API server means: worth asking again, or not.

The rule stands here alone, so that the real client and the simulated cluster cannot disagree. It judges the status code, with one
exception: a conflict is final when it is about the uid, because a uid never comes back.
"""

from http import HTTPStatus

from schemas.units import Seconds
from streams.errors import GiveUp, Outdated, TryAgain

RETRY_AFTER = Seconds(10.0)
"""How long to wait when the server does not say."""

_TRY_AGAIN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""401 is among these: somebody renews a token that has expired, while a right that is missing (403) stays missing."""


def error_for_status(*, doing: str, to: str, code: int, message: str, after: Seconds | None = None) -> TryAgain | GiveUp:
    """The error for a status code of 300 or more. `after` is the pause that the server asked for, if it did."""
    answer = f"{code} {message}".strip()
    if (
        code in _TRY_AGAIN
        or code >= HTTPStatus.INTERNAL_SERVER_ERROR
        or (code == HTTPStatus.CONFLICT and "uid" not in message.lower())
    ):
        return TryAgain(doing=doing, to=to, answer=answer, after=RETRY_AFTER if after is None else after)
    if code == HTTPStatus.GONE:
        return Outdated(doing=doing, to=to, answer=answer)
    return GiveUp(doing=doing, to=to, answer=answer)
