"""The short torture of node groups: sound, and with each mutant among the consumers, which must come out WRONG."""

import asyncio
import dataclasses

import pytest

from streams.broker import JarsUnavailable
from tests.torture.node_torture import run
from tests.torture.node_torture_options import SHORT, NodeTortureOptions
from tests.torture.recomputation import Report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def tortured(options: NodeTortureOptions) -> Report:
    try:
        return asyncio.run(run(options))
    except JarsUnavailable as error:
        pytest.skip(str(error))


def test_what_aws_and_the_cluster_show_is_what_was_decided_and_done_after_kills_of_all() -> None:
    report = tortured(dataclasses.replace(SHORT, seed=7))
    assert report.exact, report


def test_the_torture_finds_a_consumer_that_is_wrong() -> None:
    """The other mutants are tried before a release, with `python -m tests.torture --nodes --short --mutant NAME`."""
    wrong = dataclasses.replace(SHORT, seed=8, mutant="terminates undrained", die=0.0, blows={}, until_lost=True, late=400.0)
    report = tortured(wrong)
    assert any("was lost with its node" in finding for finding in report.wrong), report
