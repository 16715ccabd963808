"""What a Kubernetes API server's refusal means: worth asking again, or not.

One place for the rule, so that the real client and the simulated cluster cannot disagree. Judges status codes alone, with one
exception: a conflict is final when it is about the uid, because a uid never comes back.
"""

from http import HTTPStatus

from schemas.units import Seconds
from streams.errors import GiveUp, Outdated, TryAgain

PATIENCE = Seconds(10.0)
"""How long to wait when the other side does not say."""

_AGAIN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""Also 401: a token that has run out is renewed by others, while a right that is missing (403) stays missing."""


def refused(*, doing: str, to: str, code: int, message: str, after: Seconds | None = None) -> TryAgain | GiveUp:
    """The error for a status code of 300 or more. `after` is the server's own wish, if it had one."""
    answer = f"{code} {message}".strip()
    if (
        code in _AGAIN
        or code >= HTTPStatus.INTERNAL_SERVER_ERROR
        or (code == HTTPStatus.CONFLICT and "uid" not in message.lower())
    ):
        return TryAgain(doing=doing, to=to, answer=answer, after=PATIENCE if after is None else after)
    if code == HTTPStatus.GONE:
        return Outdated(doing=doing, to=to, answer=answer)
    return GiveUp(doing=doing, to=to, answer=answer)
