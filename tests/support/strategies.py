"""Hypothesis strategies of every event type, over the whole range that the wire can carry; they follow from the fields' types."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from hypothesis import strategies as st

from schemas.catalogue import CATALOGUE, Event
from schemas.facts.usage import MetricsScraped
from schemas.names import Place, Workload

texts = st.text(max_size=12)
# a workload's key joins its names by slashes
names = st.text(st.characters(codec="utf-8", exclude_characters="/", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
times = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  # made aware by timezones
workloads = st.builds(Workload, names, names, names, names)
places = st.builds(Place, st.sampled_from(["ullage.pod-metrics.v1", "a:b"]), st.integers(0, 2**31), st.integers(0, 10**16))


@st.composite
def scrapes(draw: st.DrawFn) -> MetricsScraped:
    """Columns of equal length, with gaps (NaN)."""
    rows = draw(
        st.lists(st.tuples(workloads.map(lambda w: w.key), names, names, *[st.just(np.nan) | st.floats(0, 1e15)] * 2), max_size=8)
    )
    columns = [tuple(column) for column in zip(*rows, strict=True)] or [()] * 5
    numbers = (np.array(column, dtype=np.float64) for column in columns[3:])
    column = st.lists(st.floats(0, 1e4), min_size=len(rows), max_size=len(rows)).map(np.array)
    optional = {name: draw(st.just(()) | column) if rows else () for name in ("ages", "cores_max", "memory_max")}
    return MetricsScraped(
        draw(times),
        draw(names),
        *columns[:3],
        *numbers,
        window=draw(st.floats(0.1, 1e5)),
        history=draw(st.booleans()),
        **optional,
    )


_scalars = st.booleans() | st.integers(-(2**53), 2**53) | texts
_KNOWN: Mapping[object, st.SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: st.integers(-(2**31), 10**16),
    float: st.floats(-1e16, 1e16),
    datetime: times,
    object: _scalars | st.lists(_scalars, max_size=2) | st.dictionaries(texts, _scalars, max_size=2),
    type(None): st.none(),
    Workload: workloads,
    Place: places,
    MetricsScraped: scrapes(),
}


@cache
def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type that the wire can carry."""
    hint = getattr(hint, "__supertype__", hint)
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _KNOWN:
        return _KNOWN[hint]
    if origin is tuple:
        return st.lists(of_type(parts[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(texts, of_type(parts[1]), max_size=2)
    if parts:
        return st.one_of([of_type(part) for part in parts])
    if is_dataclass(hint):
        kinds = get_type_hints(hint)
        return st.builds(
            hint, **{field.name: st.deferred(lambda name=field.name: of_type(kinds[name])) for field in fields(hint)}
        )
    assert issubclass(hint, StrEnum)
    return st.sampled_from(hint)


events: st.SearchStrategy[Event] = st.one_of([of_type(kind.event) for kind in CATALOGUE.kinds])
