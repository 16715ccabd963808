"""Whatever happens between scrapes, every window of a known pod is published once, and those of one container in order."""

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.usage_scene import Row, UsageScene, at, readings

PODS = ("web-1", "web-2", "web-3")
STEP = 15.0
"""Seconds between two scrapes; 15 of them are less than a restarted source reads back."""
NEVER = 99
SCRAPES = st.lists(
    st.tuples(st.sets(st.sampled_from(PODS)), st.sets(st.sampled_from(PODS)), st.sampled_from(["", "", "restart", "away"])),
    min_size=1,
    max_size=15,
)
"""Of which pods there is a new window, which pods are left out of the answer, and what else happens."""


@settings(max_examples=60, deadline=None)
@given(SCRAPES, st.tuples(*(st.sampled_from([0, 1, 2, 3, NEVER]) for _ in PODS)))
def test_every_window_is_published_once_and_in_order(scrapes: list[Any], told_at: tuple[int, ...]) -> None:
    """A pod's word comes within what is held of its usage; until all are there, nothing is restarted and the log is not away."""
    scene = UsageScene()
    source, before = scene.source(), ""
    ends: dict[str, float] = {}
    wanted: dict[str, list[float]] = defaultdict(list)
    for number, (fresh, left_out, happens) in enumerate([*scrapes, *[(set(), set(), "")] * 4]):
        for pod, when in zip(PODS, told_at, strict=True):
            if when == number:
                scene.has(pod)
        ends |= dict.fromkeys(fresh, STEP * (number + 1) - 1)
        rows: list[Row] = [("shop", pod, "main", 0.5, 1e8, end) for pod, end in ends.items() if pod not in left_out]
        for _, pod, *_, end in rows:
            if end not in wanted[pod]:
                wanted[pod].append(end)
        scene.asks = lambda _, rows=rows: readings(*rows)
        if happens == "restart" and before != "away" and number > 3:
            source = scene.source()
        scene.log.away = happens == "away" and number > 3
        source.scrape(at(STEP * (number + 1)))
        scene.log.away, before = False, happens
    published: dict[str, list[float]] = defaultdict(list)
    for _, pod, *_, end in scene.rows():
        published[pod].append(end)
    known = {pod for pod, when in zip(PODS, told_at, strict=True) if when != NEVER}
    assert published == {pod: ends for pod, ends in wanted.items() if pod in known and ends}
