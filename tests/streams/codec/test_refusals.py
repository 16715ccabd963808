from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.catalogue import CATALOGUE, Catalogue, Event, Kind
from schemas.facts.pods import PodDeleted
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import Headers, Record
from streams.topics import TOPICS, Topics
from tests.support import examples

CODEC = Codec(Topics())
VALUES = [CODEC.encode(e, topic=CATALOGUE.of(type(e)).topics[0], key="k", partition=0, source="s") for e in examples.EVENTS]


def record(value: bytes | None, topic: str = "pod-changes", kind: str | None = "ullage.pod-deleted.v1") -> Record:
    headers: Headers = () if kind is None else (("ce_type", kind.encode()),)
    return Record(f"ullage.{topic}.v1", 0, 0, b"k", value, headers)


def refusal(value: bytes | None, topic: str = "pod-changes", kind: str | None = "ullage.pod-deleted.v1") -> BadRecord:
    with pytest.raises(BadRecord) as caught:
        CODEC.decode(record(value, topic, kind))
    return caught.value


def changed(**new: object) -> bytes:
    """A good PodDeleted with some fields replaced."""
    good = {
        "at": "2026-01-02T03:04:05Z",
        "workload": {"cluster": "prod", "namespace": "shop", "kind": "Deployment", "name": "cart"},
        "pod": {"namespace": "shop", "name": "cart-1", "uid": "u1"},
    }
    return orjson.dumps(good | new)


def test_fields_that_nobody_knows_are_ignored() -> None:
    event = CODEC.decode(record(changed(colour="blue", pod={"namespace": "shop", "name": "cart-1", "uid": "u1", "ip": "::1"})))
    assert isinstance(event, PodDeleted)
    assert event.pod.uid == "u1"


def test_a_missing_field_is_named_with_its_path() -> None:
    error = refusal(changed(pod={"namespace": "shop", "name": "cart-1"}))
    assert error.path == "$.pod.uid"
    assert error.reason == "the value is no pod-deleted: Object missing required field `uid`"


def test_a_wrong_type_is_named_with_its_path() -> None:
    assert refusal(changed(pod={"namespace": "shop", "name": "cart-1", "uid": 7})).path == "$.pod.uid"
    assert refusal(changed(workload=[])).path == "$.workload"


def test_a_time_without_offset_is_refused_and_another_offset_becomes_utc() -> None:
    assert refusal(changed(at="2026-01-02T03:04:05")).path == "$.at"
    assert CODEC.decode(record(changed(at="2026-01-02T05:04:05+02:00"))) == CODEC.decode(
        record(changed(at="2026-01-02T03:04:05Z"))
    )


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_that_utc_cannot_hold_is_refused(at: str) -> None:
    assert "no pod-deleted" in refusal(changed(at=at)).reason


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"\xff\xfe", changed()[:-1], changed() + b"x", b"[" * 100_000, b'{"at":' * 100_000, b"null", b"7", b"NaN"],
)
def test_bytes_that_are_no_json_object_are_refused(value: bytes) -> None:
    assert refusal(value).reason.startswith("the value is no pod-deleted: ")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "true", '"1"', "1" * 400])
def test_a_usage_that_is_no_number_is_refused(number: str) -> None:
    names = '{"workloads":["w"],"pods":["p"],"containers":["c"]}'
    value = f'{{"at":"2026-01-02T03:04:05Z","cluster":"c","names":{names},"cores":[{number}],"memory":[1]}}'
    refusal(value.encode(), "pod-metrics", None)


def test_columns_of_unequal_length_are_refused_with_their_lengths() -> None:
    names = '{"workloads":["w","w"],"pods":["p","p"],"containers":["c","c"]}'
    value = f'{{"at":"2026-01-02T03:04:05Z","cluster":"c","names":{names},"cores":[1,2],"memory":[1]}}'
    expected = "the columns are of unequal length: 2 workloads, 2 pods, 2 containers, 2 cores, 1 memory"
    assert refusal(value.encode(), "pod-metrics", None).reason == expected


def test_a_missing_name_column_is_named_with_its_path() -> None:
    value = b'{"at":"2026-01-02T03:04:05Z","cluster":"c","names":{"pods":[],"containers":[]},"cores":[],"memory":[]}'
    assert refusal(value, "pod-metrics", None).path == "$.names.workloads"


def test_an_integer_that_could_not_be_written_again_is_refused() -> None:
    value = orjson.loads(VALUES[1].value)
    text = orjson.dumps(value | {"memory_limit": 5}).replace(b'"memory_limit":5,', b'"memory_limit":' + b"9" * 30 + b",")
    assert "container-oom-killed" in refusal(text, "oom-events", None).reason


def test_a_tombstone_is_refused_in_every_topic() -> None:
    for topic in TOPICS:
        assert "tombstone" in refusal(None, topic.name, None).reason


def test_a_topic_with_one_type_needs_no_header() -> None:
    oom = VALUES[1]
    assert CODEC.decode(Record(oom.topic, 0, 0, None, oom.value)) == examples.EVENTS[1]


def test_a_topic_with_several_types_needs_the_header() -> None:
    error = refusal(changed(), kind=None)
    assert error.reason.startswith(
        "there is no ce_type header, and 'ullage.pod-changes.v1' carries ullage.pod-changed.v1 or ullage.pod-deleted.v1 or "
    )
    assert error.path == "ce_type"


@pytest.mark.parametrize(
    "kind", ["", "PodDeleted", "ullage.pod-deleted", "ullage.pod-deleted.v0", "ullage.control-changed.v1", "\u00e9"]
)
def test_a_type_that_the_topic_does_not_carry_is_refused(kind: str) -> None:
    assert refusal(changed(), kind=kind).reason.startswith(f"the ce_type is '{kind}', but 'ullage.pod-changes.v1' carries ")


def test_a_type_from_the_future_is_refused() -> None:
    assert "newer than 'ullage.pod-deleted.v1'" in refusal(changed(), kind="ullage.pod-deleted.v2").reason


def test_a_topic_of_somebody_else_is_refused() -> None:
    with pytest.raises(BadRecord, match="the topic 'orders' is none of ours"):
        CODEC.decode(Record("orders", 0, 0, b"k", changed()))


def told_memory(body: dict[str, object]) -> dict[str, object]:
    """v1 counted restarts as text."""
    return body | {"restarts": int(str(body["restarts"]))}


def renamed(body: dict[str, object]) -> dict[str, object]:
    """v2 called the container `name`."""
    body["container"] = body.pop("name")
    return body


LIFTING = Codec(
    Topics(),
    Catalogue(
        (
            Kind("container-oom-killed", ContainerOOMKilled, ("oom-events",), version=3),
            Kind("scrape", MetricsScraped, ("pod-metrics",), 2),
            Kind("pod-deleted", PodDeleted, ("pod-changes",), 2),
        ),
        {
            ("container-oom-killed", 1): told_memory,
            ("container-oom-killed", 2): renamed,
            ("scrape", 1): lambda b: b | {"cluster": "old"},
        },
    ),
)


def old(body: dict[str, object], version: int) -> Record:
    return record(orjson.dumps(body), "oom-events", f"ullage.container-oom-killed.v{version}")


def test_old_versions_are_lifted_step_by_step() -> None:
    now = orjson.loads(VALUES[1].value)
    second = {k: v for k, v in now.items() if k != "container"} | {"name": "app"}
    first = second | {"restarts": "3"}
    assert LIFTING.decode(old(now, 3)) == LIFTING.decode(old(second, 2)) == LIFTING.decode(old(first, 1)) == examples.EVENTS[1]


def test_a_version_that_only_added_fields_needs_no_lift() -> None:
    assert LIFTING.decode(record(changed())) == CODEC.decode(record(changed()))


def test_an_old_scrape_is_lifted_too() -> None:
    event = LIFTING.decode(record(VALUES[0].value, "pod-metrics", "ullage.scrape.v1"))
    assert isinstance(event, MetricsScraped)
    assert event.cluster == "old"
    assert list(event.memory) == [104857600.0, 7340032.5]


@pytest.mark.parametrize("value", [b"{}", b"[]", b"7", b"{", b'{"restarts":"x"}'])
def test_an_old_version_that_cannot_be_lifted_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord, match="version 1 of container-oom-killed cannot be lifted to 3"):
        LIFTING.decode(record(value, "oom-events", "ullage.container-oom-killed.v1"))


def decoded(record: Record) -> Event | None:
    try:
        return CODEC.decode(record)
    except BadRecord:
        return None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(VALUES), st.data())
def test_no_damage_to_a_good_record_raises_anything_but_bad_record(good: Record, data: st.DataObject) -> None:
    value = bytearray(good.value or b"")
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(value) - 1), st.integers(0, 255)), max_size=4)):
        value[at] = byte
    cut = data.draw(st.integers(0, len(value)) | st.just(len(value)))
    decoded(Record(good.topic, 0, 0, good.key, bytes(value[:cut]), good.headers))


@given(st.sampled_from(VALUES), st.data())
def test_no_json_in_place_of_a_field_raises_anything_but_bad_record(good: Record, data: st.DataObject) -> None:
    body = orjson.loads(good.value or b"")
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(json.filter(lambda v: isinstance(v, float) or v is not None))
    try:
        value = orjson.dumps(body)
    except TypeError:  # an integer beyond 64 bits, which orjson does not write
        value = repr(body).encode()
    decoded(Record(good.topic, 0, 0, good.key, value, good.headers))


@given(
    st.binary() | st.none(),
    st.sampled_from([t.name for t in TOPICS]),
    st.binary(max_size=30) | st.none(),
    st.binary() | st.none(),
)
def test_no_bytes_at_all_raise_anything_but_bad_record(
    value: bytes | None, topic: str, kind: bytes | None, key: bytes | None
) -> None:
    headers: Headers = () if kind is None else (("ce_type", kind),)
    assert decoded(Record(f"ullage.{topic}.v1", 0, 0, key, value, headers)) is None


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_because_that_is_nested_beyond_reading_or_writing_is_refused(depth: int) -> None:
    body = orjson.loads(VALUES[7].value or b"") | {"because": {"deep": 0}}
    value = orjson.dumps(body).replace(b'"deep":0', b'"deep":' + b"[" * depth + b"]" * depth)
    assert "no requests-recommended" in refusal(value, "recommendations", None).reason


@pytest.mark.parametrize("taken", [-(1 << 63), -1, 7_258_118_400_000, (1 << 63) - 1])
def test_a_record_of_no_time_that_there_can_be_becomes_a_dead_letter_too(taken: int) -> None:
    """A producer may choose when Kafka has taken its record; a worker must not end over it."""
    letter = CODEC.dead_letter(replace(record(b"{}"), timestamp_ms=taken), BadRecord("no event", "$"), by="test")
    assert "ce_time" not in dict(letter.headers)
