"""Answers of servers, read within bounds: a body that has no end, or a list with a next page for ever, must not exhaust us.

The bound on bytes also holds for the unpacked form of a compressed body.
"""

from collections.abc import Iterator
from time import monotonic

import urllib3

from schemas.outcomes import OutcomeDetail
from schemas.units import Bytes, Seconds
from streams.answer_bounds import LONGEST_TOKEN, MOST_PAGES
from streams.errors import GiveUp

_CHUNK = 1 << 16


class BodyTooLarge(Exception):  # named for what it is
    """There is more than the bound. The rest was not read."""


def read_body(response: urllib3.BaseHTTPResponse, *, most: Bytes, within: Seconds) -> bytes:
    """The whole body, and the connection given back. Raises BodyTooLarge, TimeoutError, and urllib3's own errors."""
    try:
        body = b"".join(_chunks(response, most, within))
    except BaseException:
        # Not back to the pool: the next answer on this connection would begin with the rest of this one.
        response.close()
        raise
    response.release_conn()
    return body


def _chunks(response: urllib3.BaseHTTPResponse, most: Bytes, within: Seconds) -> Iterator[bytes]:
    until, size = monotonic() + within, 0
    # `read` would wait for a whole chunk, and a server that sends a byte now and then would never meet the check of the time.
    while chunk := response.read1(_CHUNK, decode_content=True):
        size += len(chunk)
        if size > most:
            msg = f"the answer has more than {most} bytes"
            raise BodyTooLarge(msg)
        if monotonic() > until:
            msg = f"the answer was not complete within {within:g} s"
            raise TimeoutError(msg)
        yield chunk


class PageTokens:
    """The pages of one list. `doing` and `to` go into the error."""

    def __init__(self, doing: str, to: str, most: int = MOST_PAGES) -> None:
        self._doing, self._to, self._most = doing, to, most
        self._pages, self._last = 0, ""

    def following(self, token: object) -> str:
        """The token of the next page, empty after the last one. Raises GiveUp where the list does not end."""
        self._pages += 1
        if not token:
            return ""
        if not isinstance(token, str) or len(token) > LONGEST_TOKEN:
            raise self._endless("the token of the next page is no text, or too long")
        if token == self._last:
            raise self._endless("the next page has the same token as this one")
        if self._pages >= self._most:
            raise self._endless(f"the answer has more than {self._most} pages")
        self._last = token
        return token

    def _endless(self, answer: str) -> GiveUp:
        return GiveUp(doing=self._doing, to=self._to, answer=answer, detail=OutcomeDetail.INVALID)
