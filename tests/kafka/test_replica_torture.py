"""The short torture of replicas: sound, and with mutants among its processes, which must come out WRONG."""

import asyncio
import dataclasses

import pytest

from streams.broker import JarsUnavailable
from tests.torture.recomputation import Report
from tests.torture.replica_torture import SHORT, ReplicaTortureOptions, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]
SAYS = {
    "answers what expired": ("that had expired", {"no forecasts": 1}),
    "says done": ("the API never saw", {"consumer": 1}),
    "scales twice": ("nobody decided, or somebody had done before", {"consumer": 1}),
}
"""What the judge says of a mutant, and the blows that it takes to find it."""


def tortured(options: ReplicaTortureOptions) -> Report:
    try:
        return asyncio.run(run(options))
    except JarsUnavailable as error:
        pytest.skip(str(error))


def test_scales_objects_and_answers_are_what_was_decided_after_kills_of_all() -> None:
    report = tortured(dataclasses.replace(SHORT, seed=7))
    assert report.exact, report


@pytest.mark.parametrize("mutant", SAYS)
def test_the_torture_finds_a_process_that_is_wrong(mutant: str) -> None:
    says, blows = SAYS[mutant]
    report = tortured(dataclasses.replace(SHORT, seed=8, mutant=mutant, die=0.0, blows=blows, late=0.0, settle=5.0))
    assert any(says in one for one in report.wrong), report
