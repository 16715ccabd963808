import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from agents.commands.health import doctor
from streams.admin.topic_admin import ClockTopic, may_write


def rule(user: str, operation: ACLOperation) -> ACL:
    pattern = ResourcePattern(ResourceType.TOPIC, "ullage.clock.v1")
    return ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)


def test_who_has_write_or_all_may_write() -> None:
    rules = [rule("worker", ACLOperation.READ), rule("clock", ACLOperation.WRITE), rule("boss", ACLOperation.ALL)]
    assert may_write([*rules, rule("clock", ACLOperation.WRITE)]) == ["User:boss", "User:clock"]


@pytest.mark.parametrize(
    ("writers", "level", "says"),
    [
        (None, "ok", "this Kafka checks no rights: whoever reaches it may write `clock`"),
        ((), "ok", "nobody but a super user may write"),
        (("User:clock",), "ok", "User:clock may write"),
        (
            ("User:boss", "User:clock"),
            "warn",
            "User:boss, User:clock may write `clock`, and whoever may write it can stop every turn",
        ),
    ],
)
def test_more_than_one_writer_is_warned_of(writers: tuple[str, ...] | None, level: str, says: str) -> None:
    check = doctor.writers(ClockTopic(1, 1, 1, writers))
    assert check.level == level
    assert says in check.finding


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync", "level"),
    [(1, 1, 1, "ok"), (2, 1, 1, "ok"), (3, 1, 1, "warn"), (3, 3, 1, "warn"), (3, 3, 2, "ok")],
)
def test_where_there_are_three_brokers_the_clock_has_three_copies(brokers: int, copies: int, in_sync: int, level: str) -> None:
    assert doctor.copies(ClockTopic(brokers, copies, in_sync, None)).level == level
