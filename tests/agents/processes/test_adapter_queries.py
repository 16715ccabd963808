"""The configuration of prometheus-adapter as a file: read at the start, followed, and never trusted blindly."""

import os
from pathlib import Path

import pytest

from agents.processes.source_kube import AdapterQueries
from streams.errors import BadInput
from tests.support.replica_scene import RATE, ehpa

RULE = "rules: [{seriesQuery: http_requests, metricsQuery: 'TEMPLATE(<<.Series>>{<<.LabelMatchers>>})'}]"
WHERE = '{dc="eu",namespace="shop",pod=~"^cart-[a-z0-9]+-[a-z0-9]{5}$"}'


def _write(path: Path, text: str, second: int) -> None:
    path.write_text(text)
    os.utime(path, (second, second))


def test_queries_follow_the_file_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path, asked = tmp_path / "config.yaml", ehpa(metrics=(RATE,))
    _write(path, RULE.replace("TEMPLATE", "sum"), 1)
    queries = AdapterQueries(path, ("dc=eu",))
    assert queries(asked) == {"pods.http_requests": f"sum(http_requests{WHERE})"}
    _write(path, RULE.replace("TEMPLATE", "max"), 2)
    assert queries(asked) == {"pods.http_requests": f"max(http_requests{WHERE})"}
    _write(path, "rules: [{seriesQuery: 'a b'}]", 3)
    assert queries(asked) == {"pods.http_requests": f"max(http_requests{WHERE})"}
    assert queries(ehpa(unsupported="no")) == {}


def test_a_file_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cluster.adapter_rules '.*none' cannot be read: No such file"):
        AdapterQueries(tmp_path / "none", ())
    (tmp_path / "bad").write_text("rules: [")
    with pytest.raises(BadInput, match=r"cluster.adapter_rules '.*bad'"):
        AdapterQueries(tmp_path / "bad", ())


def test_without_a_file_there_are_no_queries() -> None:
    assert AdapterQueries(None, ())(ehpa()) == {}
