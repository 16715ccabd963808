"""The short torture of replicas: sound, and with mutants among its processes, which must come out WRONG."""

import asyncio
import dataclasses

import pytest

from streams.broker import JarsUnavailable
from tests.torture.recomputation import Report
from tests.torture.replica_torture import SHORT, ReplicaTortureOptions, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def tortured(options: ReplicaTortureOptions) -> Report:
    try:
        return asyncio.run(run(options))
    except JarsUnavailable as error:
        pytest.skip(str(error))


def test_scales_objects_and_answers_are_what_was_decided_after_kills_of_all() -> None:
    report = tortured(dataclasses.replace(SHORT, seed=7))
    assert report.exact, report


def test_the_torture_finds_a_process_that_is_wrong() -> None:
    """The other mutants are tried before a release, with `python -m tests.torture --replicas --short --mutant NAME`."""
    options = dataclasses.replace(SHORT, seed=8, mutant="scales twice", die=0.0, blows={"consumer": 1}, late=0.0, settle=5.0)
    report = tortured(options)
    assert any("nobody decided, or somebody had done before" in finding for finding in report.wrong), report
