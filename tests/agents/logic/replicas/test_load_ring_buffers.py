"""Rings of load samples against a plain dictionary of them, and through a checkpoint."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.replicas.load_ring_buffers import GROUP, LoadRings

STEP, STEPS = 60, 500
"""A ring of 500 minutes takes three chunks of 360."""


def remembered(samples: dict[int, float]) -> tuple[list[int], list[float]]:
    """The samples of the newest steps, oldest first."""
    newest = max(samples, default=0)
    kept = {place: value for place, value in samples.items() if newest - STEPS < place}
    return [place * STEP for place in sorted(kept)], [kept[place] for place in sorted(kept)]


def seen(rings: LoadRings, key: str) -> tuple[Any, Any]:
    times, values = rings.series(key)
    return times.tolist(), values.tolist()


acts = st.lists(
    st.tuples(st.sampled_from(["put", "fill"]), st.sampled_from(["a", "b"]), st.integers(0, 2500), st.integers(1, 700)),
    max_size=20,
)


@given(acts)
def test_a_ring_holds_the_newest_value_of_each_of_its_steps(given_acts: list[tuple[str, str, int, int]]) -> None:
    """History fills what is not known yet; what is older than the ring is left out."""
    rings, known = LoadRings(STEP, STEPS), dict[str, dict[int, float]](a={}, b={})
    rings.add("a")
    rings.add("b")
    for number, (act, key, place, count) in enumerate(given_acts):
        mine, places = known[key], range(place, place + (count if act == "fill" else 1))
        newest = max([*mine, *(places if act == "fill" else ())], default=place)
        if act == "put":
            rings.put(key, place * STEP + 59.0, float(number))
        else:
            rings.fill(key, np.array(places) * STEP, np.full(len(places), float(number)))
        for each in places:
            if newest - STEPS < each and (act == "put" or each not in mine):
                mine[each] = float(number)
    assert {key: seen(rings, key) for key in known} == {key: remembered(mine) for key, mine in known.items()}


def test_more_series_than_one_chunk_holds_come_back_from_a_checkpoint_and_go_on() -> None:
    rings = LoadRings(STEP, STEPS)
    names = [f"s{number}" for number in range(2 * GROUP + 3)]
    for number, name in enumerate(names):
        rings.add(name)
        rings.put(name, 60.0 * (1000 + number), number + 0.5)
    rings.remove("s70")
    again = LoadRings(STEP, STEPS)
    for chunk in sorted(rings.take_dirty(), reverse=True):
        again.load(chunk, rings.dump(chunk))
    left = [name for name in names if name != "s70"]
    assert sorted(again.keys()) == sorted(left)
    for both in (rings, again):
        both.put("s100", 60.0 * 1103, 7.0)
        both.add("new")
        both.put("new", 60.0, 1.0)
    assert [seen(again, name) for name in [*left, "new"]] == [seen(rings, name) for name in [*left, "new"]]
    assert seen(again, "s100") == ([60 * 1100, 60 * 1103], [100.5, 7.0])
