"""The checks of `ullage doctor` that look at the topic of the clock: who may write it, and how many copies it has."""

from collections.abc import Iterator

from agents.commands.health.doctor_check import DoctorCheck
from agents.settings.all_settings import Settings
from streams.admin.clock_topic import COPIES, IN_SYNC, ClockTopic
from streams.errors import UllageError
from streams.topics import CLOCK

_STOPS = "whoever may write it can stop every turn"


def all_checks(settings: Settings) -> Iterator[DoctorCheck]:
    """Both checks, or that Kafka does not say."""
    from agents.settings import log_factory
    from streams.admin import clock_topic

    try:
        topic = clock_topic.ask(log_factory.answering_connection(settings), log_factory.topics(settings).wire(CLOCK))
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
    if topic.brokers < COPIES or (topic.copies >= COPIES and topic.in_sync >= IN_SYNC):
        return DoctorCheck("ok", "clock", says)
    fix = f"give it {COPIES}, with min.insync.replicas={IN_SYNC} (topics.replication={COPIES}, before `topics apply`)"
    return DoctorCheck("warn", "clock", f"{says}: while its leader is away no turn is taken", fix)
