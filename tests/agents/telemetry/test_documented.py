import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from agents.telemetry import (
    ClockMetrics,
    ConsumerMetrics,
    HealthServer,
    MetricsApiMetrics,
    NodeGroupMetrics,
    ReceiverMetrics,
    UsageMetrics,
    WebhookMetrics,
    WorkerMetrics,
    health_server,
    logging_setup,
)
from streams.topics import Topics

PAGE = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    text = PAGE.partition(heading)[2]
    table = re.search(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


@pytest.fixture
def metrics() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every metric that a component registers: exposed name to type and labels."""
    registry, topics = CollectorRegistry(), Topics()
    WorkerMetrics(registry)
    ClockMetrics(registry, topics)
    NodeGroupMetrics(registry, topics, "asg")
    ConsumerMetrics(registry, topics)
    UsageMetrics(registry)
    ReceiverMetrics(registry)
    WebhookMetrics(registry)
    MetricsApiMetrics(registry)
    HealthServer(registry)
    found = {}
    for metric in registry._collector_to_names:
        name = metric._name + ("_total" if metric._type == "counter" else "")
        found[name] = (metric._type, tuple(metric._labelnames))
    return found


def test_the_table_names_every_metric_with_its_type_and_labels_and_no_other(
    metrics: dict[str, tuple[str, tuple[str, ...]]],
) -> None:
    table = {
        name.strip("`"): (kind, tuple(part.strip() for part in labels.split(",") if part.strip()))
        for name, kind, labels, _ in _rows("## Metrics")
    }
    assert table == metrics


def test_every_metric_has_a_meaning() -> None:
    assert [name for name, *_, meaning in _rows("## Metrics") if len(meaning) < 10] == []


def test_the_table_names_every_path_that_is_served() -> None:
    assert [path.strip("`") for path, _ in _rows("# What Ullage reports")] == list(health_server.PATHS)


def _logged() -> Iterator[tuple[str, str]]:
    """Event and level of every line that our own modules log through a logger named log or _log."""
    root = Path(__file__).parents[3]
    for file in [*root.glob("agents/**/*.py"), *root.glob("streams/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log" | "_log"), attr="debug" | "info" | "warning" | "error" as level),
                    args=[ast.Constant(value=str(event)), *_],
                ):
                    yield event, level


def test_the_table_names_every_log_line_with_its_level_and_no_other() -> None:
    table = [(event.strip("`"), level.split(",")[0]) for event, level, *_ in _rows("## Log lines")]
    assert len(table) == len(set(table))
    logged = {("process started", "info"), ("process ended", "info"), ("failure", "error"), *_logged()}
    assert sorted(logged - set(table)) == [], "these lines need a row in docs/observability.md"
    assert sorted(set(table) - logged) == [], "nobody logs these lines of docs/observability.md"
    assert {line.value for line in logging_setup.Line} <= {event for event, _ in table}
