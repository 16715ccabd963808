import pytest

from streams.broker import update_jar_lock
from streams.broker.jars import Jar, kafka_version, locked, parse
from streams.errors import BadInput

SUM = "0123456789abcdef" * 4


def test_a_lock_is_coordinates_size_and_sum_with_comments_between() -> None:
    text = f"# the broker\norg.apache.kafka:kafka_2.13:4.4.0 1333804 {SUM}\n\n"
    assert parse(text, where="x") == (Jar("org.apache.kafka", "kafka_2.13", "4.4.0", 1333804, SUM),)


@pytest.mark.parametrize(
    "line",
    [f"kafka:4.4.0 1 {SUM}", f"a:b:1 one {SUM}", f"a:b:1 1 {SUM[:-1]}", f"a:b:1 1 {SUM.upper()}", "a:b:1", f"a:b:../1 1 {SUM}"],
)
def test_a_line_that_is_no_jar_is_named_with_its_number(line: str) -> None:
    with pytest.raises(BadInput, match=r"line 2 of 'my\.lock' is not 'group:artifact:version size sha256': '"):
        parse(f"# ok\n{line}\n", where="my.lock")


def test_the_lock_that_ships_is_a_whole_broker_of_one_version() -> None:
    jars = locked()
    assert len(jars) == 33
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {"4.4.0"}
    assert kafka_version(jars) == "4.4.0"
    assert len({jar.file for jar in jars}) == 33
    assert sum(jar.size for jar in jars) == pytest.approx(38e6, rel=0.05)
    assert len({jar.sha256 for jar in jars}) == 33


def test_relocking_replaces_sizes_and_sums_and_keeps_the_rest() -> None:
    text = "# why\n\na:b:2 0 old\n# more\nc:d:1 7 old\n"
    assert update_jar_lock.renewed(text, {"a:b:2": (10, "new"), "c:d:1": (8, "also")}) == (
        "# why\n\na:b:2 10 new\n# more\nc:d:1 8 also\n"
    )
