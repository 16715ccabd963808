"""Runs `ullage doctor`: each check looks at one thing and reports ok, warn or fail, and what to do about it.

A later check may need an earlier one: without settings there is no broker to ask, and without a broker there are no topics.
"""

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from agents.commands.health import doctor_cluster_checks
from agents.commands.health.doctor_cluster_checks import DoctorCheck
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, sentence
from agents.terminal.output_table import OutputForm
from streams.admin import topic_admin
from streams.admin.topic_admin import COPIES, IN_SYNC, ClockTopic
from streams.errors import BadInput, UllageError
from streams.log.connection_check import find_fault
from streams.topics import CLOCK, TOPICS, changelog_specs

_STOPS = "whoever may write it can stop every turn"


def clock_checks(settings: Settings) -> Iterator[DoctorCheck]:
    """Both checks, or that Kafka does not say."""
    try:
        topic = topic_admin.clock_topic(log_factory.answering_connection(settings), log_factory.topics(settings).wire(CLOCK))
    except UllageError as error:
        yield DoctorCheck("warn", "clock", f"who may write its topic, and how many copies there are, is not said: {error}")
        return
    yield writers(topic)
    yield copies(topic)


def writers(topic: ClockTopic) -> DoctorCheck:
    """Whether more than one principal may write it."""
    if topic.writers is None:
        return DoctorCheck("ok", "clock", f"this Kafka checks no rights: whoever reaches it may write `clock`, and {_STOPS}")
    names = ", ".join(topic.writers)
    if len(topic.writers) > 1:
        fix = "leave the right Write on that topic to the clock's user alone (docs/security.md)"
        return DoctorCheck("warn", "clock", f"{names} may write `clock`, and {_STOPS}", fix)
    return DoctorCheck("ok", "clock", f"by Kafka's rules {names or 'nobody but a super user'} may write `clock`")


def copies(topic: ClockTopic) -> DoctorCheck:
    """Whether it has three copies, two of them in sync, where there are three brokers."""
    says = f"{topic.copies} copies of `clock` on {topic.brokers} brokers, of which {topic.in_sync} must have each tick"
    # fewer brokers than copies: then there is nothing to mend
    if topic.brokers < COPIES or (topic.copies >= COPIES and topic.in_sync >= IN_SYNC):
        return DoctorCheck("ok", "clock", says)
    fix = f"give it {COPIES}, with min.insync.replicas={IN_SYNC} (topics.replication={COPIES}, before `topics apply`)"
    return DoctorCheck("warn", "clock", f"{says}: while its leader is away no turn is taken", fix)


_NEWEST = (3, 14)
_OLDEST = (3, 11)
_ROOM_MB = 1024
_ROOM_LEFT = 0.2
"""Of a broker's disk. What comes in a few days still fits then."""
_SHOWN = 3
"""Differences between topics and their plan that are named."""
_NAMES = 9
"""Characters of a check's name."""


def run(load: Callable[[], Settings], form: OutputForm = "table") -> int:
    """Print a line for each check, with its fix. Returns 1 when a check failed, else 0."""
    failed = False
    if form not in output_table.PEOPLE:
        checks = list(all_checks(load))
        output_table.print_rows(
            form, [{"check": check.name, "level": check.level, "finding": check.finding, "fix": check.fix} for check in checks]
        )
        return int(any(check.level == "fail" for check in checks))
    for check in all_checks(load):
        for line in output_table.judged(check.level, f"{check.name:<{_NAMES}} {check.finding}", width=4, indent=_NAMES + 1):
            data(line)
        if check.fix:
            sentence(f"{'':{_NAMES + 7}}{check.fix}")
        failed |= check.level == "fail"
    return int(failed)


def all_checks(load: Callable[[], Settings]) -> Iterator[DoctorCheck]:
    """The checks in order, each run on demand."""
    yield python(sys.version_info[:2])
    yield java()
    yield jars()
    yield disk()
    try:
        settings = load()
    except UllageError as error:
        yield DoctorCheck("fail", "settings", str(error), "`ullage config show --origin` shows where values come from")
        return
    yield DoctorCheck("ok", "settings", f"they make sense; the log is {settings.log.kind}")
    yield from the_log(settings)
    yield from doctor_cluster_checks.all_checks(settings)


def python(version: tuple[int, int]) -> DoctorCheck:
    """Whether Ullage is tested on this Python."""
    text = f"Python {platform.python_version()}"
    if _OLDEST <= version <= _NEWEST:
        return DoctorCheck("ok", "python", text)
    if version < _OLDEST:
        return DoctorCheck("fail", "python", f"{text} is too old", "install Python 3.11 to 3.14, then: make PY=python3.12 setup")
    return DoctorCheck("warn", "python", f"{text} is newer than what Ullage is tested on", "if something fails, try Python 3.14")


def java() -> DoctorCheck:
    """Whether there is a Java for `ullage broker`."""
    from streams.broker import preflight

    try:
        return DoctorCheck("ok", "java", str(preflight.find_java()))
    except UllageError as error:
        return DoctorCheck(
            "warn", "java", str(error), "only `ullage broker` and `ullage demo` need it: --log memory works without"
        )


def jars() -> DoctorCheck:
    """Whether Kafka's jars are here, or can be fetched, which is tried with the smallest one that is missing."""
    from streams.broker.broker_settings import user_cache
    from streams.broker.jars import is_good, kafka_version, locked

    wanted = locked()
    folder = user_cache() / f"kafka-{kafka_version(wanted)}"
    missing = [jar for jar in wanted if not is_good(folder / jar.file, jar)]
    if not missing:
        return DoctorCheck("ok", "jars", f"{len(wanted)} jars in {folder}")
    # a mirror that is away shows with one small jar, without 38 MB of them
    problem = _fetching(min(missing, key=lambda jar: jar.size).coordinates)
    if problem is None:
        return DoctorCheck(
            "ok", "jars", f"{len(missing)} of {len(wanted)} are not here yet; the first `ullage broker` fetches them"
        )
    fix = "name a mirror in ~/.config/jgo.conf, or use --log memory, or a Kafka of your own by log.brokers"
    return DoctorCheck("warn", "jars", f"{len(missing)} of {len(wanted)} are not here, and cannot be fetched: {problem}", fix)


def _fetching(coordinates: str) -> str | None:
    """Why this jar cannot be fetched; None when it can."""
    from streams.broker.jars import from_maven

    with tempfile.TemporaryDirectory() as folder:
        try:
            from_maven(coordinates, Path(folder))
        except (UllageError, OSError, RuntimeError) as error:
            return str(error).partition("\n")[0][:200]
    return None


def disk() -> DoctorCheck:
    """Whether the disk has room for a broker's data."""
    free = shutil.disk_usage(".").free >> 20
    if free >= _ROOM_MB:
        return DoctorCheck("ok", "disk", f"{free} MB free here")
    return DoctorCheck(
        "warn", "disk", f"only {free} MB free here", f"a broker wants {_ROOM_MB} MB: make room, or use another folder"
    )


def the_log(settings: Settings) -> Iterator[DoctorCheck]:
    """Whether the log can be reached and its topics are as planned."""
    if settings.log.kind == "memory":
        yield DoctorCheck("ok", "log", "in memory: nothing to reach")
        return
    first = _broker(settings) if settings.log.kind == "kafka" else _file(settings)
    yield first
    # topics of a log that does not answer would be a second line about one fault
    if first.level != "fail":
        yield from _topics(settings)
        if settings.log.kind == "kafka":
            yield _volume(settings)


def _volume(settings: Settings) -> DoctorCheck:
    """How much the topics and changelogs of this installation keep, and whether the brokers' disks have room."""
    from agents.run.stage_topics import stage_names

    specs = [*log_factory.topics(settings).specs(), *changelog_specs(settings.worker.name, stage_names(), 1)]
    try:
        use = topic_admin.disk_use(log_factory.connection(settings), {spec.name for spec in specs})
    except UllageError as error:
        return DoctorCheck("warn", "volume", f"what the log takes is not said: {error}", "it needs Describe on the Kafka cluster")
    kept = f"{use.kept / 1e9:.2f} GB of ours, copies included"
    if use.room is None:
        return DoctorCheck("ok", "volume", f"{kept}; this Kafka does not say how much room there is")
    room = f"{kept}; the fullest of the brokers' disks has {use.room:.0%} free"
    if use.room >= _ROOM_LEFT:
        return DoctorCheck("ok", "volume", room)
    fix = "a full disk ends a broker: give it a larger one; docs/sizing.md says what a day takes"
    return DoctorCheck("warn", "volume", room, fix)


def _broker(settings: Settings) -> DoctorCheck:
    """Whether a broker accepts us, and if none does, why."""
    try:
        fault = find_fault(log_factory.connection(settings), log_factory.PATIENCE)
    except UllageError as error:
        return DoctorCheck("fail", "broker", str(error), "look at log.security")
    if fault is None:
        return DoctorCheck("ok", "broker", f"{settings.log.brokers} answers, and lets us in")
    fix = "look at log.security" if fault.refused else "if yours is elsewhere, name it: --brokers HOST:PORT"
    return DoctorCheck("fail", "broker", fault.sentence, fix)


def _file(settings: Settings) -> DoctorCheck:
    if settings.log.path.is_file():
        return DoctorCheck("ok", "file", str(settings.log.path))
    return DoctorCheck("fail", "file", f"there is no log file '{settings.log.path}'", "name another: --set log.path=FILE")


def _topics(settings: Settings) -> Iterator[DoctorCheck]:

    topics = log_factory.topics(settings)
    wrong, counts = [], set[int]()
    try:
        with log_factory.log(settings) as log:
            for topic in TOPICS:
                try:
                    count = log.partitions(topics.wire(topic.name))
                except BadInput:
                    wrong.append(f"{topic.name} is missing")
                    continue
                planned = topics.count(topic.name)
                # only topics that follow `topics.partitions` tell its number; the clock's has one always
                if planned == topics.partitions:
                    counts.add(count)
                if count != planned:
                    wrong.append(f"{topic.name} has {count} partitions, planned are {planned}")
    except UllageError as error:
        yield DoctorCheck("fail", "topics", str(error), "see the lines above")
        return
    # every topic of the log has another number: then the setting here is wrong, and not the log
    if len(wrong) >= len(TOPICS) - 1 and len(counts) == 1 and not any(fault.endswith("missing") for fault in wrong):
        (count,) = counts
        finding = f"all {len(TOPICS)} have {count} partitions, and topics.partitions is {topics.partitions} here"
        yield DoctorCheck("fail", "topics", finding, f"give the log's number: export ULLAGE_TOPICS__PARTITIONS={count}")
    elif wrong:
        fix = "`ullage topics plan` shows the difference, `ullage topics apply` makes what is missing"
        yield DoctorCheck("fail", "topics", "; ".join(wrong), fix)
    else:
        yield DoctorCheck("ok", "topics", f"all {len(TOPICS)} are there with {topics.partitions} partitions")
        if settings.log.kind == "kafka":
            yield from _as_planned(settings)
            yield from clock_checks(settings)


def _as_planned(settings: Settings) -> Iterator[DoctorCheck]:
    """Whether retention, compaction and changelogs are as `topics plan` has them, which may take a right of its own to see."""
    from agents.commands.change import topics

    try:
        with topic_admin.connect(log_factory.answering_connection(settings)) as client:
            changes = topic_admin.plan(client, topics.wanted(settings)).changes
    except UllageError as error:
        yield DoctorCheck("warn", "topics", f"whether their settings are as planned is not said: {error}")
        return
    if changes:
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        finding = f"not as planned: {'; '.join(map(str, changes[:_SHOWN]))}{more}"
        yield DoctorCheck("warn", "topics", finding, "`ullage topics plan` shows all, `ullage topics apply` changes them")
