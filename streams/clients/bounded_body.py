"""Bodies of HTTP responses, read within bounds of bytes and time: a server that answers without end must not exhaust us.

The bound on bytes also holds for the unpacked form of a compressed body.
"""

from collections.abc import Iterator
from time import monotonic

import urllib3

from schemas.units import Bytes, Seconds

_CHUNK = 1 << 16


class BodyTooLarge(Exception):  # named for what it is
    """There is more than the bound. The rest was not read."""


def read_body(response: urllib3.BaseHTTPResponse, *, most: Bytes, within: Seconds) -> bytes:
    """The whole body, and the connection given back. Raises BodyTooLarge, TimeoutError, and urllib3's own errors."""
    try:
        body = b"".join(_chunks(response, most, within))
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return body


def _chunks(response: urllib3.BaseHTTPResponse, most: Bytes, within: Seconds) -> Iterator[bytes]:
    until, size = monotonic() + within, 0
    while chunk := response.read1(_CHUNK, decode_content=True):
        size += len(chunk)
        if size > most:
            msg = f"the answer has more than {most} bytes"
            raise BodyTooLarge(msg)
        if monotonic() > until:
            msg = f"the answer was not complete within {within:g} s"
            raise TimeoutError(msg)
        yield chunk
