"""The short torture, sound and with each mutant among workers: what is right comes out EXACT, what is wrong on purpose WRONG."""

import asyncio
import dataclasses

import pytest

from streams.broker import JarsUnavailable
from tests.torture.mutant_runs import WORKER_RUNS, is_found, worker_run
from tests.torture.recomputation import Report
from tests.torture.torture_options import SHORT, TortureOptions
from tests.torture.torture_run import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def tortured(options: TortureOptions) -> Report:
    try:
        return asyncio.run(run(options))
    except JarsUnavailable as error:
        pytest.skip(str(error))


def test_state_decisions_and_acts_equal_those_recomputed_from_the_log_after_a_minute_of_torture() -> None:
    report = tortured(dataclasses.replace(SHORT, seed=7))
    assert report.exact, report
    assert report.figures["decisions"] > 500


def test_the_torture_finds_workers_that_are_wrong() -> None:
    """The others are found by `python -m tests.torture --mutants`, before a release."""
    mutants = WORKER_RUNS[-1]
    report = tortured(worker_run(8, mutants))
    assert [mutant for mutant in mutants if not is_found(mutant, report.wrong)] == [], report
