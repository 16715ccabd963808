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
        found = clock_topic.ask(log_factory.answering_connection(settings), log_factory.topics(settings).wire(CLOCK))
    except UllageError as error:
        yield DoctorCheck("warn", "clock", f"who may write its topic, and how many copies there are, is not said: {error}")
        return
    yield writers(found)
    yield copies(found)


def writers(found: ClockTopic) -> DoctorCheck:
    """Whether more than one principal may write it."""
    if found.writers is None:
        return DoctorCheck("ok", "clock", f"this Kafka checks no rights: whoever reaches it may write `clock`, and {_STOPS}")
    names = ", ".join(found.writers)
    if len(found.writers) > 1:
        fix = "leave the right Write on that topic to the clock's user alone (docs/security.md)"
        return DoctorCheck("warn", "clock", f"{names} may write `clock`, and {_STOPS}", fix)
    return DoctorCheck("ok", "clock", f"by Kafka's rules {names or 'nobody but a super user'} may write `clock`")


def copies(found: ClockTopic) -> DoctorCheck:
    """Whether it has three copies, two of them in sync, where there are three brokers."""
    says = f"{found.copies} copies of `clock` on {found.brokers} brokers, of which {found.in_sync} must have each tick"
    if found.brokers < COPIES or (found.copies >= COPIES and found.in_sync >= IN_SYNC):
        return DoctorCheck("ok", "clock", says)
    fix = f"give it {COPIES}, with min.insync.replicas={IN_SYNC} (topics.replication={COPIES}, before `topics apply`)"
    return DoctorCheck("warn", "clock", f"{says}: while its leader is away no turn is taken", fix)
