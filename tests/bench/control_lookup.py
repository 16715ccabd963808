"""How long a process that starts anew needs to know what is in force, in a log of 14 days at the default tick."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from schemas.policies.control import ControlChanged, Mode
from streams import compacted_copy
from streams.admin import topic_admin
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.topics import DAY_MS, Topics

TICK_MS = 500
DAYS = 14
_BATCH = 50_000

Put = Callable[[str, float, str, str], None]


def measure(put: Put, brokers: str, days: int = DAYS) -> None:
    """Write the ticks of so many days into one partition of `control`, pause in the middle, and ask what is in force."""
    topics = Topics("benchpresent", 1)
    connection = KafkaConnection(brokers)
    with topic_admin.connect(connection) as admin:
        topic_admin.apply(admin, topic_admin.plan(admin, topics.specs()))
    begin = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    total = days * DAY_MS // TICK_MS
    with KafkaLog(connection) as log:
        context = LogContext(log, topics, Codec(topics), "prod")
        compacted_copy.complete(log, topics, "control")
        wire = topics.wire("clock")
        for start in range(0, total, _BATCH):
            log.append([_tick(n, begin).encode(wire) for n in range(start, min(total, start + _BATCH))])
            if start <= total // 2 < start + _BATCH:
                at = datetime.fromtimestamp((begin + total // 2 * TICK_MS) / 1000, UTC)
                OperatorLog(context).publish(ControlChanged(at, "prod", Mode.APPLY, paused=True))
    with KafkaLog(connection) as log:
        fresh = LogContext(log, topics, Codec(topics), "prod")
        began = time.perf_counter()
        control = OperatorLog(fresh).control("prod")
        took = time.perf_counter() - began
        assert control is not None
        assert control.paused
        put(f"control in force after a start, log of {days} days", took, "s", "<= 1")
        began = time.perf_counter()
        position, count = log.begin(wire, 0), 0
        while position < log.end(wire, 0):
            records = log.poll({(wire, 0): position}, wait=5.0)
            count, position = count + len(records), records[-1].offset + 1
        put("  the same by reading the topic itself", time.perf_counter() - began, "s", "")


def _tick(number: int, begin: int) -> ClockRecord:
    """One of a chain, in which each 120th is a full one."""
    after = (number - 1, str(number - 1)) if number else None
    return ClockRecord(begin + number * TICK_MS, str(number), after, {}, full=number % 120 == 0)
