"""Says how hard Hypothesis tries, and how many of upstream's vectors the quick suite takes.

By hand a few dozen examples a property and a few dozen vectors a test, so that the whole suite stays quick; CI sets
HYPOTHESIS_PROFILE=ci, and `make test-slow` takes the other vectors. By hand the examples are new ones each time; CI takes the
same ones each time, so that its verdict is about the change. `thorough` takes four times as many.
"""

import os
import time
from collections import defaultdict

import pytest
from hypothesis import settings

from tests.support.slow_machines import SLOWER

os.environ.pop("COLUMNS", None)  # xdist sets it to 80 in its workers, and a line is as long as it likes where no terminal is

settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=100, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

QUICK_VECTORS = 24
"""Cases of one test that the quick suite takes, evenly spread; the others of a file `test_..._vectors.py` are slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a slow test that would begin after the moment until which CI has time for them."""
    until = float(os.environ.get("LONG_TESTS_UNTIL", "inf"))
    if item.get_closest_marker("slow") and time.time() > until:
        pytest.skip("no time is left for long tests: `make test-slow test-kafka-slow` runs them")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the vectors beyond `QUICK_VECTORS` as slow, and give each test the time that a slower machine takes."""
    for item in items:
        bound = item.get_closest_marker("timeout")
        if bound is not None:
            item.add_marker(pytest.mark.timeout(SLOWER * bound.args[0]), append=False)
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.name.endswith("_vectors.py"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_one_test in cases.values():
        quick = {round(n * len(of_one_test) / QUICK_VECTORS) for n in range(QUICK_VECTORS)}
        for number, item in enumerate(of_one_test):
            if number not in quick and len(of_one_test) > QUICK_VECTORS:
                item.add_marker(pytest.mark.slow)
