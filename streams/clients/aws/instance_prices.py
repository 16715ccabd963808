"""What nodes cost per hour: a list that the user supplies as a CSV file, because bills differ from list prices.

The first line is `type,on_demand,spot`; the price of spot instances may be left empty, and then counts as the other one.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from streams.errors import BadInput
from streams.yaml_reader import read_text

_HEAD = ["type", "on_demand", "spot"]
_MOST = 100_000.0
_MOST_FILE = 1 << 20
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class InstancePrices:
    """Prices by type of instance."""

    on_demand: Mapping[str, float] = field(default_factory=dict)
    spot: Mapping[str, float] = field(default_factory=dict)

    def of_group(self, types: Sequence[str], *, spot: bool) -> float | None:
        """The price of a node of a group that may start these types: of the first that has one."""
        prices = [self.spot.get(name) if spot and name in self.spot else self.on_demand.get(name) for name in types]
        return next((price for price in prices if price is not None), None)


def read(path: Path) -> InstancePrices:
    """The list of a file. Raises BadInput that names the file, the line and the value."""
    try:
        rows = list(csv.reader(read_text(path, f"the price list '{path}'", _MOST_FILE).splitlines()))
    except csv.Error as error:
        raise BadInput(f"the price list '{path}' cannot be read: {error}") from error
    first = ",".join(rows[0]) if rows else ""
    if first != ",".join(_HEAD):
        raise BadInput(f"the prices '{path}' must begin with the line '{','.join(_HEAD)}', not '{first[:_SHOWN]}'")
    on_demand: dict[str, float] = {}
    spot: dict[str, float] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(_HEAD) or not row[0]:
            raise BadInput(f"the prices '{path}' make no sense in line {number}: '{','.join(row)[:_SHOWN]}'")
        on_demand[row[0]] = _price(path, number, row[1])
        if row[2]:
            spot[row[0]] = _price(path, number, row[2])
    return InstancePrices(on_demand, spot)


def _price(path: Path, number: int, text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price <= _MOST:
        raise BadInput(f"the prices '{path}' make no sense in line {number}: '{text[:_SHOWN]}' is no price")
    return price
