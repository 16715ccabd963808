"""Takes in usage over HTTP: `/api/v1/write` for remote-write 1.0 and 2.0, `/v1/metrics` for OTLP.

A request is answered when its samples are in memory. What cannot be taken now is refused with 503 and Retry-After. What can never
be taken is refused with 400, 413 or 415 and a sentence, and the good samples beside a bad one are taken. One request is decoded
at a time, in a thread, and few wait.
"""

import asyncio
import hmac
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Protocol

from aiohttp import web

from schemas.units import Bytes, Seconds, counted_are
from streams.errors import BadInput
from streams.serving.https_server import LATE_ANSWER, LateAnswer, read_body
from streams.sources.usage.promql import MetricNames
from streams.sources.usage.received import otlp, remote_write
from streams.sources.usage.received.sample_table import RequestTooLarge, UnreadableRequest
from streams.sources.usage.received.usage_samples import SampleBatch, UsageSamples

MOST_WAITING = 8
"""Requests that wait to be decoded; their bodies are in the server's budget."""
SENDER = web.RequestKey("SENDER", str)
"""Whose samples a request has."""
_VERSIONS = {"": remote_write.V1, remote_write.V1: remote_write.V1, remote_write.V2: remote_write.V2}
_BAD = ("malformed", "refused", "future", "too_old", "out_of_order")
"""What became of samples that a sender is told of."""
_TAKEN = ("stored", "stale", "repeated")
Decode = Callable[[UsageSamples], SampleBatch]
"""Reads the samples of a request."""
_WRITTEN = "X-Prometheus-Remote-Write-{}-Written"


class RequestWatcher(Protocol):
    """Counts requests."""

    def answered(self, protocol: str, code: int) -> None:
        """A request was answered with this status."""


@dataclass(frozen=True, slots=True)
class ReceiverOptions:
    """`names` say which series are usage, `most_bytes` is of a body, unpacked.

    `tokens` gives what senders may show; nobody is asked where there is none. Where there are several, each is a sender,
    wherever it sends from; else a sender is an address.
    """

    names: MetricNames = MetricNames()
    tokens: Callable[[], Sequence[str]] = tuple
    most_bytes: Bytes = Bytes(8 << 20)
    retry_after: Seconds = Seconds(5.0)


class ReceiverEndpoint:
    """`not_taking` says why nothing can be taken now; `now` gives event time."""

    def __init__(
        self,
        samples: UsageSamples,
        watcher: RequestWatcher,
        options: ReceiverOptions,
        *,
        not_taking: Callable[[], Sequence[str]],
        now: Callable[[], datetime],
    ) -> None:
        self._samples, self._watcher, self._options, self._not_taking, self._now = samples, watcher, options, not_taking, now
        self._decoder = ThreadPoolExecutor(1, thread_name_prefix="decoder")
        self._waiting = 0

    @property
    def routes(self) -> list[web.RouteDef]:
        """What the server is to serve."""
        return [web.post("/api/v1/write", self._remote_write), web.post("/v1/metrics", self._otlp)]

    def close(self) -> None:
        """Take nothing any more."""
        self._decoder.shutdown()

    async def _remote_write(self, request: web.Request) -> web.Response:
        return self._counted("remote-write", await self._refusal(request) or await self._taken_remote_write(request))

    async def _otlp(self, request: web.Request) -> web.Response:
        return self._counted("otlp", await self._refusal(request) or await self._taken_otlp(request))

    def _counted(self, protocol: str, response: web.Response) -> web.Response:
        self._watcher.answered(protocol, response.status)
        return response

    async def _refusal(self, request: web.Request) -> web.Response | None:
        """Why a request is not even read."""
        # One that is late is to come again: at 408 a sender would drop it.
        request[LATE_ANSWER] = LateAnswer(lambda: self._later("the request was not there and taken in time"))
        try:
            sender = self._sender(request)
        except BadInput as error:
            return self._later(str(error))
        if sender is None:
            return web.Response(status=401, text="this receiver asks for a bearer token\n")
        request[SENDER] = sender
        if reasons := self._not_taking():
            return self._later("; ".join(reasons))
        if self._waiting >= MOST_WAITING:
            return self._later(f"{self._waiting} requests wait already")
        return None

    def _sender(self, request: web.Request) -> str | None:
        """Whose samples a request has; None for who shows no token that may send. Raises BadInput where tokens cannot be read."""
        tokens, address = self._options.tokens(), request.remote or ""
        if not tokens:
            return address
        shown = request.headers.get("Authorization", "").encode(errors="replace")
        # All are compared, so that the time taken does not tell which of them began alike.
        valid = [token for token in tokens if hmac.compare_digest(shown, f"Bearer {token}".encode())]
        if not valid:
            return None
        return address if len(tokens) == 1 else blake2b(valid[0].encode(), digest_size=16).hexdigest()

    async def _taken_remote_write(self, request: web.Request) -> web.Response:
        media, _, parameter = request.headers.get("Content-Type", "").replace(" ", "").partition(";")
        version = _VERSIONS.get(parameter.removeprefix("proto="))
        if media != "application/x-protobuf" or version is None:
            return web.Response(status=415, text=f"'{media[:100]};{parameter[:100]}' is no message of remote-write 1.0 or 2.0\n")
        if request.headers.get("Content-Encoding", "snappy") != "snappy":
            return web.Response(status=415, text="remote-write is packed with Snappy\n")
        most, names = self._options.most_bytes, self._options.names
        counts = await self._take(
            request, lambda body: partial(remote_write.decode, version, remote_write.unpacked(body, most), names)
        )
        if isinstance(counts, web.Response):
            return counts
        bad = _bad(counts, self._samples.fault)
        written = {"Samples": sum(counts[word] for word in _TAKEN), "Histograms": 0, "Exemplars": 0}
        headers = {_WRITTEN.format(what): str(count) for what, count in written.items()}
        return web.Response(status=400 if bad else 204, text=f"{bad}\n" if bad else None, headers=headers)

    async def _taken_otlp(self, request: web.Request) -> web.Response:
        media, packed = request.content_type, request.headers.get("Content-Encoding", "identity")
        if media not in (otlp.PROTOBUF, otlp.JSON):
            return web.Response(status=415, text=f"'{media[:100]}' is neither {otlp.PROTOBUF} nor {otlp.JSON}\n")
        if packed not in ("identity", "gzip", ""):
            return web.Response(status=415, text=f"'{packed[:100]}' is no encoding that is read: gzip is, and none\n")
        most, namespaces = self._options.most_bytes, self._options.names.namespaces

        def reader(body: bytes) -> Decode:
            content = otlp.gunzipped(body, most) if packed == "gzip" else body
            return partial(otlp.decode, media, content, namespaces)

        counts = await self._take(request, reader)
        if isinstance(counts, web.Response):
            return counts
        rejected = sum(counts[word] for word in _BAD)
        return web.Response(body=otlp.answer(media, rejected, _bad(counts, self._samples.fault)), content_type=media)

    async def _take(self, request: web.Request, reader: Callable[[bytes], Decode]) -> Counter[str] | web.Response:
        """Read the body and take its samples. A refusal is the sentence that the sender gets."""
        body = await read_body(request, self._options.most_bytes)
        if len(body) > self._options.most_bytes:
            return web.Response(status=413, text=f"the body has more than {self._options.most_bytes} bytes\n")
        self._waiting += 1
        job = asyncio.get_running_loop().run_in_executor(self._decoder, self._decoded, body, reader, request[SENDER])
        job.add_done_callback(self._decoded_once)
        # A sender that goes away does not end the job, which counts as waiting until it is done.
        try:
            return await asyncio.shield(job)
        except RequestTooLarge as error:
            return web.Response(status=413, text=f"{error}\n")
        except UnreadableRequest as error:
            return web.Response(status=400, text=f"{error}\n")

    def _decoded(self, body: bytes, reader: Callable[[bytes], Decode], sender: str) -> Counter[str]:
        return self._samples.take(reader(body), self._now(), sender)

    def _decoded_once(self, job: asyncio.Future[Counter[str]]) -> None:
        self._waiting -= 1
        if not job.cancelled():
            job.exception()  # whoever asked may be gone

    # At 503 every sender keeps its samples and comes again; 429 would make a Prometheus drop them.
    def _later(self, reason: str) -> web.Response:
        headers = {"Retry-After": f"{self._options.retry_after:.0f}"}
        return web.Response(status=503, text=f"{reason}\n", headers=headers)


def _bad(counts: Counter[str], fault: str) -> str:
    """What was wrong with samples of a request, as a sentence for its sender; empty where nothing was."""
    words = [f"{counted_are(counts[word], 'sample')} {word.replace('_', ' ')}" for word in _BAD if counts[word]]
    if counts["malformed"]:
        words.append(fault)
    return "; ".join(words)
