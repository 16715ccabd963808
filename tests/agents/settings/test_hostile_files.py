"""Price lists and policies that are written as code are read up to a bound, however long the file is."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.backtest import price_list
from agents.policies import policy_sources
from streams.clients.aws import ec2_instances
from streams.errors import BadInput

FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "policy": ("steady.py", lambda path: policy_sources.read(str(path))),
    "instance prices": ("prices.csv", ec2_instances.read_prices),
    "prices of a comparison": ("rates.csv", price_list.read),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_gigabytes_is_refused_by_its_size(tmp_path: Path, name: str) -> None:
    file, read = FILES[name]
    path = tmp_path / file
    path.touch()
    os.truncate(path, 8 << 30)  # takes no place on the disk
    tracemalloc.start()
    with pytest.raises(BadInput, match=f"'{path}' has more than 1048576 bytes"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("name", ["instance prices", "prices of a comparison"])
@pytest.mark.parametrize(
    "line", ["x" * 500_000, '"' + "x" * 200_000 + '",1,2', "cpu," + "9" * 100_000, "\x00,x,1", "m5.large," + "1" * 5000 + ","]
)
def test_a_line_of_prices_that_makes_no_sense_is_named_in_short(tmp_path: Path, name: str, line: str) -> None:
    _, read = FILES[name]
    path = tmp_path / "prices.csv"
    path.write_text(f"type,on_demand,spot\n{line}\n" if name == "instance prices" else f"resource,price\n{line}\n")
    with pytest.raises(BadInput) as refused:
        read(path)
    assert str(path) in str(refused.value)
    assert len(str(refused.value)) < 700
