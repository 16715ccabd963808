"""Runs `ullage source remote-write`: takes in what senders bring, and publishes it each interval until stopped.

What came since the last interval is published before the end. While another instance holds the Lease, or the log is away,
senders are told to keep what they have and to come again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from agents.processes.process_lease import Turns, holder_lease
from agents.processes.process_telemetry import fitting_log, telemetry_for
from agents.processes.signals import Stop, pause, until_stopped
from agents.processes.source_clock import event_time
from agents.processes.source_usage import STANDBY, metric_names, scrape, when_empty
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import DependencyStatus, ReceiverMetrics, SourceMetrics, UsageMetrics
from agents.terminal.output import note
from schemas.units import Bytes, Seconds
from streams import secret_files
from streams.errors import BadInput, TryAgain
from streams.log_context import LogContext
from streams.serving.certificate_rotation import CertificateFiles, CertificateRotation
from streams.serving.https_server import CertificateHolder, HttpsServer, ServerLimits
from streams.sources.usage.readings import Readings
from streams.sources.usage.usage_source import NAME, UsageOptions, UsageSource

try:
    from streams.sources.usage.received.receiver_endpoint import ReceiverEndpoint, ReceiverOptions
    from streams.sources.usage.received.usage_samples import UsageSamples
except ModuleNotFoundError as missing:
    WHAT = f"what senders bring is read with '{missing.name}', which is not installed: pip install -e '.[receive]'"
    raise BadInput(WHAT) from missing

_WHILE_AWAY = 5.0
"""Seconds between two tries to publish while the log is away: senders wait for it."""
_DEADLINE = Seconds(20.0)
"""Seconds for a request; Prometheus gives up after 30."""


class Arrivals:
    """What came of containers' samples, and since when nothing did. `clock` counts real seconds."""

    def __init__(self, samples: UsageSamples, silence: Seconds, clock: Callable[[], float] = time.monotonic) -> None:
        self._samples, self._silence, self._clock = samples, silence, clock
        self._stored, self._since = 0, clock()

    def reasons(self) -> Sequence[str]:
        """Why what is known of usage is not what is used now; empty while samples arrive."""
        stored, now = self._samples.counts["stored"], self._clock()
        if stored > self._stored:
            self._stored, self._since = stored, now
        elif not stored:
            return ["no sender has brought a sample of a container yet"]
        elif now - self._since > self._silence:
            return [f"no sender has brought a sample of a container for {now - self._since:.0f} s"]
        return []

    def read(self, at: datetime) -> Readings:
        """What is used now. Raises TryAgain while nothing arrives."""
        # silence is no usage of zero: an empty answer would let the recommender believe that nothing is used
        if reasons := self.reasons():
            raise TryAgain(doing="waiting for usage from", to="the senders", answer=reasons[0], after=self._silence)
        return self._samples.read(at)


def remote_write(settings: Settings) -> None:
    """Take in and publish what containers use, until stopped."""
    topics, ours = log_factory.topics(settings), settings.receiver
    turns = Turns(NAME, holder_lease("source-usage", settings))
    samples = UsageSamples(Seconds(settings.usage.rate_seconds), ours.most_series)
    arrivals = Arrivals(samples, Seconds(ours.silence_seconds))
    senders = DependencyStatus("what senders bring")
    server: HttpsServer | None = None

    def reasons() -> Sequence[str]:
        faults = () if server is None else server.faults.reasons()
        return [*faults, *(() if turns.stands_by else arrivals.reasons())]

    with until_stopped(), telemetry_for("usage", settings, reasons) as telemetry, fitting_log(settings) as log, turns.taken():
        log_metrics, metrics = SourceMetrics(telemetry.registry, topics, NAME), UsageMetrics(telemetry.registry)
        received, observed = ReceiverMetrics(telemetry.registry), telemetry.observe(log, log_metrics)
        options = UsageOptions(Seconds(settings.usage.interval_seconds), when_empty=when_empty(settings))
        source = UsageSource(arrivals.read, LogContext.of(observed, topics, settings.cluster.name), options)

        def not_taking() -> Sequence[str]:
            return observed.troubles() if working else ["this instance is not at work, or not yet"]

        def publish() -> None:
            scrape(source, event_time(settings), metrics, senders)
            log_metrics.dropped(source.dropped)
            metrics.rows(source.counts, source.pending)
            metrics.used(settings.cluster.name, source.used)
            received.samples(samples.counts, len(samples))

        endpoint = ReceiverEndpoint(
            samples, received, _options(settings), not_taking=not_taking, now=lambda: event_time(settings)
        )
        working = False
        try:
            with _served(endpoint, settings, received) as (server, look_at_certificate):
                while True:
                    server.faults.check()
                    begun, wait = time.monotonic(), STANDBY
                    look_at_certificate(event_time(settings))
                    working = turns.at_work()
                    if working:
                        publish()
                        wait = min(settings.usage.interval_seconds, _WHILE_AWAY if observed.troubles() else float("inf"))
                    pause(max(0.0, begun + wait - time.monotonic()))
        except Stop:
            # what a sender was told is taken must not get lost when we are stopped
            if working and samples.counts["stored"]:
                publish()
            raise


def _options(settings: Settings) -> ReceiverOptions:
    """Raises BadInput for a file with a token that cannot be read."""
    file = settings.receiver.token_file

    def tokens() -> Sequence[str]:
        if file is None:
            return ()
        lines = secret_files.read(file.expanduser(), f"the file '{file}' of receiver.token_file").splitlines()
        shown = tuple(dict.fromkeys(filter(None, map(str.strip, lines))))
        if not shown:
            raise BadInput(f"the file '{file}' of receiver.token_file is empty")
        return shown

    tokens()  # refuses now, and not with the first request
    return ReceiverOptions(metric_names(settings), tokens, Bytes(settings.receiver.most_bytes))


@contextmanager
def _served(
    endpoint: ReceiverEndpoint, settings: Settings, metrics: ReceiverMetrics
) -> Iterator[tuple[HttpsServer, Callable[[datetime], None]]]:
    """Serve while the block runs; gives the server, and what looks whether a certificate was renewed."""
    ours, holder = settings.receiver, None
    look: Callable[[datetime], None] = _nothing
    if ours.certificate is not None and ours.key is not None:
        holder = CertificateHolder()
        rotation = CertificateRotation(CertificateFiles(ours.certificate, ours.key), holder, metrics)
        look = rotation.look
    limits = ServerLimits(body=ours.most_bytes, deadline=_DEADLINE)
    try:
        with HttpsServer(endpoint.routes, holder, address=(ours.host, ours.port), limits=limits) as server:
            how = "HTTP" if holder is None else "HTTPS"
            where = f"{ours.host}:{server.port}, /api/v1/write and /v1/metrics"
            who = "whoever reaches it" if ours.token_file is None else "who shows the token"
            note(f"taking usage of cluster '{settings.cluster.name}' from {who} by {how} on {where}")
            yield server, look
    finally:
        endpoint.close()


def _nothing(_at: datetime) -> None:
    """Without a certificate there is none to look at."""
