import re
import sys
import tracemalloc
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from types import MappingProxyType

import numpy as np
import orjson
import pytest
from hypothesis import given

from schemas.catalogue import CATALOGUE, Event
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.facts.pods import PodDeleted
from schemas.facts.usage import MetricsScraped
from schemas.names import Place
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.topics import TOPICS, Topics
from tests.support import examples, golden_wire, strategies
from tests.support.golden_wire import encoded as written

CODEC = Codec(Topics())


def stored(new: NewRecord) -> Record:
    return Record(new.topic, new.partition, 12, new.key, new.value, new.headers, 1_767_323_045_700)


def same(one: object, other: object) -> bool:
    """Equality that knows arrays and NaN, which dataclasses leave to numpy."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if is_dataclass(one):
        return type(one) is type(other) and all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return one == other


@given(strategies.events)
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    assert same(CODEC.decode(stored(written(event))), event)


@pytest.mark.parametrize("event", examples.EVENTS, ids=lambda e: type(e).__name__)
def test_a_record_that_waits_takes_no_more_memory_than_its_bytes(event: Event) -> None:
    topic = CATALOGUE.of(type(event)).topics[0]
    tracemalloc.start()
    try:
        records = [CODEC.encode(replace(event), topic=topic, key="k", partition=0, source="/s") for _ in range(50)]
        took, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < sum(sys.getsizeof(record.value) + 1_500 for record in records)  # headers, too


@given(strategies.events)
def test_what_came_back_has_the_same_bytes_from_another_codec(event: Event) -> None:
    first = written(event)
    again = CODEC.decode(stored(first))
    second = Codec(Topics()).encode(
        again, topic=CATALOGUE.of(type(event)).topics[0], key="prod", partition=1, source="/ullage/source/test"
    )
    assert second == first


@given(strategies.events, strategies.st.lists(strategies.places, max_size=3).map(tuple))
def test_the_cause_comes_back_as_it_was(event: Event, cause: tuple[Place, ...]) -> None:
    assert event_codec.causes(stored(written(event, cause))) == cause


@pytest.mark.parametrize("event", examples.EVENTS, ids=lambda e: type(e).__name__)
def test_the_wire_is_byte_for_byte_what_the_golden_file_shows(event: Event) -> None:
    kind = CATALOGUE.of(type(event))
    new = written(event, golden_wire.CAUSE)
    shown = orjson.loads(golden_wire.path(kind).read_bytes())
    assert golden_wire.readable(new) == golden_wire.path(kind).read_bytes()
    assert new.value == orjson.dumps(shown["value"])  # the order of fields and the form of numbers too
    headers = tuple((name, value.encode()) for name, value in shown["headers"].items())
    old = Record(shown["topic"], 1, 12, shown["key"].encode(), orjson.dumps(shown["value"]), headers)
    assert same(CODEC.decode(old), event)


def test_there_is_an_example_of_every_kind_and_a_golden_file_of_every_version() -> None:
    assert {type(event) for event in examples.EVENTS} == {kind.event for kind in CATALOGUE.kinds}
    wanted = {f"{kind.name}.v{version}.json" for kind in CATALOGUE.kinds for version in range(1, kind.version + 1)}
    assert {path.name for path in golden_wire.FOLDER.glob("*.v*.json")} == wanted


def test_wire_names_are_the_class_names_in_kebab_case_and_topics_exist() -> None:
    for kind in CATALOGUE.kinds:
        words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]+", kind.event.__name__)
        assert kind.name == "-".join(words).lower()
        assert set(kind.topics) <= {topic.name for topic in TOPICS}


def test_scrapes_with_equal_names_share_their_tuples_and_equal_names_are_one_string() -> None:
    event = examples.EVENTS[0]
    assert isinstance(event, MetricsScraped)
    one, two = (CODEC.decode(stored(written(event))) for _ in range(2))
    assert isinstance(one, MetricsScraped)
    assert isinstance(two, MetricsScraped)
    assert one.workloads is two.workloads
    assert one.pods is two.pods
    assert one.containers is two.containers
    assert one.workloads[0] is one.workloads[1]
    assert one.cores.dtype == one.memory.dtype == np.float64


@pytest.mark.parametrize(
    ("found", "change"),
    [
        (b'"cores":', b'"names":{"workloads":[],"pods":[],"containers":[]},"cores":'),
        (b'"cores":', b'"names":0,"cores":'),
        (b'"cores":', b'"\\u006eames":0,"cores":'),
        (b'{"at":', b'{"names":0,"at":'),
        (b'"cluster":"prod"', b'"cluster":"prod\\"","x":{"window":60.0,"names":'),
        (b'"]},"cores"', b'"]}},"cores"'),
        (b'"cores":[', b'"cores":[null,'),
    ],
)
def test_a_scrape_whose_names_are_known_is_read_or_refused_as_by_who_meets_it_first(found: bytes, change: bytes) -> None:
    event = examples.EVENTS[0]
    assert isinstance(event, MetricsScraped)
    columns = {name: getattr(event, name) * 20 for name in ("workloads", "pods", "containers")}
    many = replace(event, **columns, cores=np.ones(40), memory=np.ones(40))
    record = stored(written(many))  # names are remembered by their first 256 bytes
    knows = Codec(Topics())
    knows.decode(record)
    assert record.value is not None
    assert found in record.value
    changed = replace(record, value=record.value.replace(found, change, 1))

    def read(codec: Codec) -> object:
        try:
            event = codec.decode(changed)
        except BadRecord as error:
            return str(error)
        assert isinstance(event, MetricsScraped)
        return event.workloads, event.pods, event.containers, str(event.cores), str(event.memory)

    assert read(knows) == read(Codec(Topics()))


def test_a_time_without_offset_is_not_written() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  # the point of this test
    with pytest.raises(ValueError, match="has no offset from UTC"):
        written(PodDeleted(naive, examples.CART, examples.POD))


def test_what_json_cannot_carry_is_not_written() -> None:
    decision = EvictionPlanned("id", examples.AT, examples.SOON, examples.CART, examples.POD, {}, {"seen": {1, 2}})
    with pytest.raises(TypeError):
        written(decision)


def test_equal_mappings_are_equal_bytes_whatever_their_order_or_class() -> None:
    def bytes_of(because: Mapping[str, object]) -> bytes | None:
        return written(EvictionPlanned("id", examples.AT, examples.SOON, examples.CART, examples.POD, {}, because)).value

    one = bytes_of({"a": 1, "b": {"c": (1.5, None), "d": np.array([1.0])}})
    assert one == bytes_of(MappingProxyType({"b": MappingProxyType({"d": [np.float64(1.0)], "c": [1.5, None]}), "a": 1}))
