"""The short torture: a minute of kills, a freeze, a broker kill and a bad clock; then everything is recomputed from the log."""

import asyncio
import dataclasses

import pytest

from streams.broker import JarsUnavailable
from tests.torture.torture_run import SHORT, run


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_state_and_every_decision_equal_those_recomputed_from_the_log_after_a_minute_of_torture() -> None:
    try:
        report = asyncio.run(run(dataclasses.replace(SHORT, seed=7)))
    except JarsUnavailable as error:
        pytest.skip(str(error))
    assert report.exact, report
    assert report.figures["decisions"] > 500
