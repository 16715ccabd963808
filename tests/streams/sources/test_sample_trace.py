"""The sample trace in docs is what its generator writes, and the page about columns names what the reader accepts."""

import csv
import re
from pathlib import Path

from streams.sources.traces.trace_columns import ALIASES, find_columns
from tests.support.sample_trace import SAMPLE, lines

PAGE = Path(__file__).parents[3] / "docs/traces.md"


def test_the_sample_is_what_its_generator_writes_and_has_every_column_but_peaks_and_cpu_limits() -> None:
    assert SAMPLE.read_text().splitlines() == list(lines())
    with SAMPLE.open() as file:
        header, *rows = csv.reader(file)
    assert set(ALIASES) - set(find_columns(header, SAMPLE.name)) == {"cores_max", "memory_max", "cpu_limit"}
    assert sum(int(row[-1]) for row in rows) > 0, "a kill to look at"


def test_the_page_names_every_column_that_a_trace_may_have() -> None:
    """A name stands there whole, or as a beginning with one of the units that stand in its row."""
    words = set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))
    for names in ALIASES.values():
        for name in names:
            plain = name.removesuffix("_max").replace("_max_", "_")
            begin, _, unit = plain.rpartition("_")
            assert name in words or (f"{begin}_" in words and unit in words), name
