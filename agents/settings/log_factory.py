"""Opens the log that the settings name, and gives its topics."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from agents.settings import event_times
from agents.settings.all_settings import SecuritySettings, Settings, for_partitions
from schemas.units import Seconds
from streams.errors import BadInput
from streams.log.log_port import Log
from streams.log_as_of import LogAsOf
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing.operator_log import OperatorLog
from streams.topics import Topics

_AFTER_THE_LOG = timedelta(minutes=1)
"""How far `log.at` may lie after the newest tick: somebody's clock, which need not agree with the log's."""
PATIENCE = Seconds(2.0)
"""Seconds that a person waits for brokers that do not answer at all."""

if TYPE_CHECKING:
    from streams.log.kafka_connection import KafkaConnection, MskTokens


def topics(settings: Settings) -> Topics:
    """The topics of these settings."""
    return Topics(settings.topics.prefix, settings.topics.partitions)


def log(settings: Settings) -> Log:
    """The log of these settings, as it was at `log.at` if that is set. Raises LogUnavailable or BadInput with what to do."""
    opened = _open(settings)
    return opened if settings.log.at is None else _as_of(opened, topics(settings), settings.log.at)


def _as_of(log: Log, topics: Topics, text: str) -> Log:
    tick = OperatorLog(LogContext.of(log, topics)).newest_tick()
    if tick is None:
        raise BadInput(f"log.at is '{text}', but the log has no tick, so no time passed in it")
    moment = event_times.moment(text, tick.at, "log.at")
    if moment > tick.at + _AFTER_THE_LOG:
        newest = f"{tick.at:%Y-%m-%d %H:%M:%S} UTC"
        raise BadInput(f"log.at is '{text}', and the log's newest tick is of {newest}: leave it out for what is newest")
    return LogAsOf(log, topics, moment)


def _open(settings: Settings) -> Log:
    match settings.log.kind:
        case "kafka":
            from streams.log.kafka_log import KafkaLog

            return KafkaLog(connection(settings))
        case "file":
            return _file(settings.log.path)
        case "memory":
            raise BadInput("log.kind is 'memory', but a log in memory is gone with its process: this command needs kafka or file")


def _file(path: Path) -> Log:
    from agents.settings import recorded_log

    if recorded_log.is_incident(path):
        from streams.incidents.incident_copy import IncidentLog

        return IncidentLog(path)
    from streams.log.file_log import FileLog

    return FileLog(path)


@contextmanager
def log_to_read(settings: Settings) -> Iterator[tuple[Log, Settings]]:
    """As `log`, for a command that a person waits for and that only reads; and the settings with the log's number of partitions.

    Raises LogUnavailable within seconds when no broker answers.
    """
    if settings.log.kind == "kafka":
        answering_connection(settings)
    # as it is now: its number of partitions has to be known before `log.at` is looked for
    with _open(settings) as opened:
        # who only reads need not know the number, for the log says it
        count = _partitions(opened, settings)
        if count is not None:
            settings = for_partitions(settings, count)
        yield (opened if settings.log.at is None else _as_of(opened, topics(settings), settings.log.at)), settings


@contextmanager
def context_to_read(settings: Settings) -> Iterator[tuple[LogContext, Settings]]:
    """As `log_to_read`: the log with its topics, for the settings' cluster, and the settings that fit it."""
    with log_to_read(settings) as (opened, fitted):
        yield LogContext.of(opened, topics(fitted), settings.cluster.name), fitted


def log_to_write(settings: Settings) -> Log:
    """As `log`, for a command that a person waits for: raises LogUnavailable within seconds when no broker answers.

    Raises BadInput where the log has another number of partitions.
    """
    if settings.log.kind == "kafka":
        answering_connection(settings)
    opened = log(settings)
    try:
        # with another number a command would write into a part of the log alone, and some workers would never see it
        require_partitions(opened, settings)
    # also at Ctrl-C: nobody else has the log yet
    except BaseException:
        opened.close()
        raise
    return opened


def require_partitions(log: Log, settings: Settings, *, by: str = "control") -> None:
    """Raise BadInput where the log has another number of partitions than the settings say, by one topic that the caller may see.

    A log without that topic is let through. Raises LogUnavailable.
    """
    count, ours = _partitions(log, settings, by=by), settings.topics.partitions
    if count not in {None, ours}:
        raise BadInput(
            f"the topics of this log have {count} partitions, and topics.partitions is {ours} here: give the log's number, "
            f"with ULLAGE_TOPICS__PARTITIONS={count} or in your settings file"
        )


def _partitions(log: Log, settings: Settings, *, by: str = "control") -> int | None:
    topic = topics(settings).wire(by)
    return log.partitions(topic) if has_topic(log, topic) else None


def answering_connection(settings: Settings) -> "KafkaConnection":
    """As `connection`, and raises LogUnavailable within seconds when no broker answers."""
    from streams.log.connection_check import require_answer

    where = connection(settings)
    # Kafka's own client goes on trying in silence, and a person has long pressed Ctrl-C
    require_answer(where, within=PATIENCE)
    return where


def connection(settings: Settings) -> "KafkaConnection":
    """How to reach Kafka. Raises BadInput for a folder of its files that is not there."""
    from streams.log.kafka_connection import KafkaConnection

    security = settings.log.security
    if security.folder is not None and not security.folder.is_dir():
        raise BadInput(
            f"log.security.folder '{security.folder}' is no folder: it is where a Secret with Kafka's files is mounted"
        )
    msk = _msk_tokens(security)
    return KafkaConnection(
        brokers=settings.log.brokers,
        security_protocol=security.protocol,
        sasl_mechanism=None if msk else security.mechanism,
        msk=msk,
        sasl_username=security.username,
        sasl_password=security.password.get_secret_value() if security.password else None,
        ssl_cafile=_path(security.ca or _within(security.folder, "ca.crt")),
        ssl_certfile=_path(security.certificate or _within(security.folder, "user.crt")),
        ssl_keyfile=_path(security.key or _within(security.folder, "user.key")),
        ssl_check_hostname=security.check_hostname,
    )


def _msk_tokens(security: SecuritySettings) -> "MskTokens | None":
    from streams.log import kafka_connection

    if security.mechanism != kafka_connection.MECHANISM:
        return None
    if security.protocol != "SASL_SSL" or not security.region:
        raise BadInput(
            f"log.security.mechanism '{kafka_connection.MECHANISM}' goes with log.security.protocol SASL_SSL (it is "
            f"'{security.protocol}') and the cluster's region in log.security.region (it is '{security.region}'); it is port 9098"
        )
    return kafka_connection.MskTokens(security.region)


def _within(folder: Path | None, name: str) -> Path | None:
    """The file of that name in a folder, if both are there."""
    # a Secret of Strimzi has what its Kafka asks for, and not always all three files
    return folder / name if folder is not None and (folder / name).is_file() else None


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
