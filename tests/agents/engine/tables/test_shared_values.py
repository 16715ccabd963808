"""Equal parts of what tables hold are one object, and nothing else changes."""

from dataclasses import dataclass, field

import msgspec

from agents.engine.tables import shared_values
from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.shared_values import sharer
from schemas.names import Amounts, PodName
from schemas.units import Bytes, Cores


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    requests: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class _Pod:
    pod: PodName
    containers: tuple[_Seen, ...]
    node: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    whole: Amounts = Amounts()


def _read(uid: str, *, node: str = "n1", cpu: str = "1.5") -> _Pod:
    containers = f'[{{"name":"app","requests":{{"cpu":{cpu},"memory":5}}}}]'
    pod = f'{{"namespace":"shop","name":"cart-{uid}","uid":"{uid}"}}'
    return msgspec.json.decode(f'{{"pod":{pod},"containers":{containers},"node":"{node}","labels":{{}},"whole":{{}}}}', type=_Pod)


def _table() -> ObjectTable[_Pod]:
    return ObjectTable("pods", _Pod, 4, shares=(_Seen,))


def _same(first: _Pod, second: _Pod) -> bool:
    texts = first.pod.namespace is second.pod.namespace and first.node is second.node
    return texts and first.containers is second.containers and first.labels is second.labels and first.whole is second.whole


def test_values_share_their_equal_parts_when_they_come_and_when_they_are_loaded() -> None:
    table, other = _table(), _table()
    for uid in ("a", "b"):
        table.upsert(uid, _read(uid))
    for chunk in table.chunks():
        other.load(chunk, table.dump(chunk))
    pods = [held.get(uid) for held in (table, other) for uid in ("a", "b")]
    first = pods[0]
    assert first is not None
    assert all(pod is not None and _same(first, pod) for pod in pods)
    assert pods == [_read(uid) for uid in ("a", "b", "a", "b")]


def test_keys_of_several_tables_are_one_object() -> None:
    first, second = _table(), _table()
    for table in (first, second):
        table.upsert(b"uid".decode(), _read("uid"))
    assert next(iter(first)) is next(iter(second))


def test_what_is_equal_and_written_differently_is_not_shared() -> None:
    whole = _Seen("app", Amounts(Cores(1), Bytes(5)))
    real = _Seen("app", Amounts(Cores(1.0), Bytes(5)))
    assert whole == real
    table = _table()
    for uid, seen in (("a", whole), ("b", real)):
        table.upsert(uid, _Pod(PodName("shop", "cart", uid), (seen,)))
    written = b"".join(map(table.dump, table.chunks()))
    assert b'"cpu":1,' in written
    assert b'"cpu":1.0,' in written


def test_values_that_nobody_holds_are_forgotten() -> None:
    known = shared_values._KnownValues()
    kept = [known.first((_Seen(f"kept-{number}"),), None) for number in range(100)]
    for number in range(20_000):
        known.first((_Seen(f"gone-{number}"),), None)
    assert len(known._values) <= 2 * shared_values._FEWEST
    assert all(known.first((_Seen(f"kept-{number}"),), None) is kept[number] for number in range(100))


def test_a_class_of_numbers_alone_has_nothing_to_share() -> None:
    assert sharer(Amounts, frozenset()).nothing
