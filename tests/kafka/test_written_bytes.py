"""What an hour of a fleet writes to a real Kafka, beside the table from which docs/sizing.md and the chart's volume follow."""

import asyncio
from pathlib import Path

import pytest

from tests.bench import disk
from tests.support import sizing_page


@pytest.mark.slow
@pytest.mark.timeout(560)
def test_an_hour_writes_no_more_than_the_table_says(broker: str, tmp_path: Path) -> None:
    hour = asyncio.run(disk.scraped(broker, 2_000, 60, tmp_path))
    table = {name: size / 24 for name, size in sizing_page.written().items()}
    assert hour.keys() <= table.keys(), "a topic that the table of docs/lab/bench.md does not have"
    for name in ("pod-metrics", "recommendations", "recommendations-by-cluster", "vpa-conditions"):
        assert hour.get(name, 0) <= 1.1 * table[name], name
    assert hour["pod-metrics"] >= 0.9 * table["pod-metrics"], "the table says too much"
    assert sum(hour.values()) <= sum(size for name, size in table.items() if name not in {"clock", "changelogs"})
