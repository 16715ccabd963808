"""Consumers and webhook through a freeze, pauses, an absence and a restart: the sound come out right, each mutant is found."""

from functools import partial

import pytest

from tests.torture.mutant_consumers import MUTANTS, Parts
from tests.torture.mutant_runs import is_found
from tests.torture.mutant_world import MutantWorld

pytestmark = pytest.mark.slow


def test_sound_consumers_do_what_is_planned_and_refuse_what_is_paused_or_expired() -> None:
    """Nor do they look like a mutant at any moment at which those below are looked for."""
    figures, wrong = MutantWorld(Parts()).run(lambda wrong: any(is_found(mutant, wrong) for mutant in MUTANTS))
    assert wrong == []
    least = {"resizes": 10, "evictions": 10, "patched": 10, "expired": 2, "refused under a pause": 2, "take-overs": 1}
    assert {name: figures[name] for name in least if figures[name] < least[name]} == {}, figures


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_consumer_that_is_wrong_is_found(mutant: str) -> None:
    _, wrong = MutantWorld(MUTANTS[mutant]).run(partial(is_found, mutant))
    assert is_found(mutant, wrong), wrong
