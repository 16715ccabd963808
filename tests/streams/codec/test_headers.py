import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import Place
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics

TOPIC = "ullage.policies.v1"


def stored(new: NewRecord) -> Record:
    return Record(new.topic, new.partition, 0, new.key, new.value, new.headers)


def named(key: bytes | None, value: bytes | None) -> Record:
    return Record(TOPIC, 0, 0, key, value)


FIVE_MINUTES = 300_000


def test_a_malformed_tick_is_a_bad_record() -> None:
    with pytest.raises(BadRecord):
        Codec(Topics()).decode(named(b"tick", b'{"at":-1}'))


def test_a_record_without_cause_rests_on_nothing() -> None:
    assert event_codec.causes(named(b"k", b"{}")) == ()


@pytest.mark.parametrize("text", [b"x", b'["a:b"]', b'["a:1:x"]', b"[1]", b"\xff", b"[" * 100_000])
def test_a_malformed_cause_is_a_bad_record(text: bytes) -> None:
    with pytest.raises(BadRecord, match="the 'cause' header is not a list of places"):
        event_codec.causes(Record(TOPIC, 0, 0, b"k", b"{}", (("cause", text),)))


def test_a_header_is_found_by_name() -> None:
    record = Record(TOPIC, 0, 0, b"k", b"{}", (("a", b"1"), ("b", b"\xff")))
    assert [event_codec.header(record, name) for name in ("a", "b", "c")] == ["1", "\ufffd", None]


BAD = Record("ullage.pod-changes.v1", 5, 77, b"\xff", b'{"at":1', (("ce_type", b"x"),), 1_767_323_045_700)


def dead(record: Record, partitions: int = 4) -> NewRecord:
    error = BadRecord("it is cut", "$.at")
    return Codec(Topics(partitions=partitions)).dead_letter(record, error, by="/ullage/recommender/1")


def test_a_dead_letter_says_what_where_why_and_by_whom() -> None:
    letter = dead(BAD)
    assert orjson.loads(letter.value or b"") == {
        "reason": "it is cut",
        "path": "$.at",
        "topic": "ullage.pod-changes.v1",
        "partition": 5,
        "offset": 77,
        "by": "/ullage/recommender/1",
        "key": {"base64": "/w=="},
        "value": {"text": '{"at":1'},
        "headers": [["ce_type", {"text": "x"}]],
    }
    assert (letter.topic, letter.partition, letter.key) == ("ullage.dead-letters.v1", 5 % 4, b"\xff")
    assert event_codec.header(letter, "ce_id") == "/ullage/recommender/1/dead-letter/ullage.pod-changes.v1:5:77"
    assert event_codec.header(letter, "ce_time") == "2026-01-02T03:04:05.700000Z"
    assert event_codec.causes(letter) == (Place("ullage.pod-changes.v1", 5, 77),)


def test_a_dead_letter_is_the_same_each_time() -> None:
    assert dead(BAD) == dead(BAD)


def test_a_dead_letter_of_a_record_without_time_key_and_value_has_none_of_them() -> None:
    letter = dead(Record("ullage.policies.v1", 0, 1, None, None))
    body = orjson.loads(letter.value or b"")
    assert (body["key"], body["value"], letter.key) == (None, None, None)
    assert event_codec.header(letter, "ce_time") is None


@given(st.binary(), st.binary())
def test_any_key_and_value_make_a_dead_letter(key: bytes, value: bytes) -> None:
    assert dead(Record("ullage.policies.v1", 0, 1, key, value, (("h", key),))).value


def test_a_huge_value_is_cut_and_its_size_told() -> None:
    body = orjson.loads(dead(Record("ullage.policies.v1", 0, 1, b"k", "é".encode() * 4_000_000)).value or b"")
    assert body["value"] == {"text": "é" * 32_768, "size": 8_000_000}


def test_a_dead_letter_of_the_largest_record_fits_into_a_message() -> None:
    big = b"\x01" * (8 << 20)  # each byte is six characters in JSON
    headers = tuple(("h" * 5_000, big[:5_000]) for _ in range(1_000))
    error = BadRecord(f"the ce_type is '{big.decode()}'", big.decode())
    letter = Codec(Topics()).dead_letter(Record("ullage.policies.v1", 0, 1, big, big, headers), error, by="/ullage/updater/0")
    assert letter.key is None
    assert len(letter.value or b"") < 2 << 20
