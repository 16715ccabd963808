"""The row of bitbrains-rnd in docs/backtest.md: what its machines have themselves, computed by one query from the trace."""

import re

import duckdb
import pytest

from tests.support.commands import ROOT
from tests.support.real_traces import TRACES

USAGE = TRACES / "bitbrains-rnd" / "usage.parquet"
ROW = re.compile(
    r"^\| bitbrains-rnd \| (\d+), ([\d,.]+) \| own \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) GiB \| ([\d.]+) % \| (\d+) \|",
    re.MULTILINE,
)
QUERY = """
with samples as (
    select *, memory_bytes > memory_provisioned_bytes as over,
        lag(memory_bytes > memory_provisioned_bytes) over (partition by container_id order by timestamp_s) as before
    from '{}'
)
select count(distinct container_id), count(*) * 300 / 86400, avg(greatest(cpu_provisioned_cores - cpu_cores, 0)),
    100 * avg((cpu_cores > cpu_provisioned_cores)::int), avg(greatest(memory_provisioned_bytes - memory_bytes, 0)) / 2**30,
    100 * avg(over::int), sum((over and not coalesce(before, false))::int)
from samples
"""


@pytest.mark.slow
@pytest.mark.skipif(not USAGE.exists(), reason="there is no trace bitbrains-rnd under ULLAGE_SHARED (default ../shared)")
def test_the_row_of_bitbrains_is_what_a_query_finds() -> None:
    match = ROW.search((ROOT / "docs/backtest.md").read_text(encoding="utf-8"))
    assert match
    [row] = duckdb.sql(QUERY.format(USAGE)).fetchall()
    written = [float(number.replace(",", "")) for number in match.groups()]
    # The page has the time in which a recommendation was in force as well, so without the first minutes of each machine.
    most = [0, 0.2, 0.001, 0.005, 0.002, 0.005, 0]
    assert all(abs(float(found) - shown) <= off for found, shown, off in zip(row, written, most, strict=True)), (row, written)
