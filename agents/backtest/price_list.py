"""What requests cost: a price for an hour of one core and of one GiB, from a CSV file or OpenCost's default rates.

A file has a line for each resource, `cpu,0.0316` and `memory,0.0042`: the price of a core-hour and of a GiB-hour. A line
`currency,EUR` sets the currency. These are list prices: discounts, spot and idle capacity are not in them.
"""

import csv
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from streams.errors import BadInput
from streams.yaml_reader import read_text

GIB = 1 << 30
_HOUR = 3600.0
_MOST = 1e6
_MOST_FILE = 1 << 20
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices an hour. `origin` says where they come from, for every report that uses them."""

    # Source: OpenCost's configs/default.json
    core_hour: float = 0.031611
    gib_hour: float = 0.004237
    currency: str = "USD"
    origin: str = "OpenCost's default rates"

    def cost(self, core_seconds: float, byte_seconds: float) -> float:
        """The cost of this much requested CPU and memory."""
        return (core_seconds * self.core_hour + byte_seconds / GIB * self.gib_hour) / _HOUR

    def __str__(self) -> str:
        """As in: 0.031611 USD a core-hour, 0.004237 USD a GiB-hour (OpenCost's default rates)."""
        return f"{self.core_hour:g} {self.currency} a core-hour, {self.gib_hour:g} {self.currency} a GiB-hour ({self.origin})"


def read(path: Path | None) -> PriceList:
    """The prices in a file; the default rates without one. Raises BadInput that names file, line and value."""
    if path is None:
        return PriceList()
    prices: dict[str, float] = {}
    currency = "USD"
    try:
        for number, row in enumerate(csv.reader(read_text(path, f"the price list '{path}'", _MOST_FILE).splitlines()), 1):
            # a line may have one cell or none, and more than two
            name, value = [*(cell.strip() for cell in row), "", ""][:2]
            if name == "currency":
                currency = value[:_SHOWN]
            elif name in {"cpu", "memory"}:
                prices[name] = _price(value[:_SHOWN], f"line {number} of the price list '{path}'")
            # a heading is allowed
            elif name and not (number == 1 and name == "resource"):
                raise BadInput(
                    f"line {number} of the price list '{path}' prices '{name[:_SHOWN]}'; there are cpu, memory and currency"
                )
    except csv.Error as error:
        raise BadInput(f"the price list '{path}' is no CSV: {error}") from error
    if lacking := {"cpu", "memory"} - prices.keys():
        raise BadInput(f"the price list '{path}' has no line for {' and '.join(sorted(lacking))}")
    return PriceList(prices["cpu"], prices["memory"], currency, str(path))


def _price(text: str, where: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = float("nan")
    if not (isfinite(price) and 0 <= price <= _MOST):
        raise BadInput(f"{where} says '{text}', which is no price")
    return price
