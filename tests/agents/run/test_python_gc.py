"""How rarely the garbage collector looks."""

import gc
from collections.abc import Iterator

import pytest

from agents.run import python_gc
from schemas.units import Seconds


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_looks_more_rarely_while_decisions_are_far_behind_and_as_before_afterwards() -> None:
    python_gc.relax()
    near = gc.get_threshold()
    python_gc.follow(Seconds(python_gc.BEHIND + 1.0))
    far = gc.get_threshold()
    assert far[0] >= 10 * near[0]
    assert far[1:] == near[1:]
    python_gc.follow(python_gc.BEHIND)
    assert gc.get_threshold() == near


def test_no_collection_comes_while_it_is_held_and_one_that_is_due_comes_after_it() -> None:
    seen: list[str] = []

    def collected(phase: str, _info: object) -> None:
        seen.append(phase)

    gc.set_threshold(100, 10, 10)
    gc.callbacks.append(collected)
    try:
        with python_gc.held():
            seen.clear()
            kept = [[n] for n in range(5_000)]
            assert seen == []
        kept += [[n] for n in range(200)]
        assert seen
    finally:
        gc.callbacks.remove(collected)
