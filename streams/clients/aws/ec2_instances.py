"""Instances and their types: read from EC2's responses, in the table that ships with the program, and what they cost an hour.

The table is for accounts that may not ask EC2, and `python -m tests.support.instance_size_snapshot` rewrites it from moto's data:
a type that is younger is unknown without the right ec2:DescribeInstanceTypes. Prices are a CSV file of the user's, because bills
differ from list prices: first the line `type,on_demand,spot`, and an empty price of spot instances counts as the other one.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from streams.errors import BadInput
from streams.yaml_reader import read_text


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance in EC2, in whatever group it is: `state` in EC2's words ("running", "shutting-down", "terminated")."""

    id: str
    state: str
    spot: bool = False
    launched: datetime | None = None

    @property
    def gone(self) -> bool:
        """Whether it will never run again."""
        # One that is "stopping" or "stopped" can be started again.
        return self.state in ("shutting-down", "terminated")


@dataclass(frozen=True, slots=True)
class InstanceSize:
    """A type of instance: its size, and its processor as Kubernetes spells it."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int = 0
    architecture: str = "amd64"


def read_reservation(answer: Mapping[str, Any]) -> list[InstanceState]:
    """The instances of a reservation of DescribeInstances. Raises LookupError and TypeError for what is none."""
    return [
        # EC2 leaves the lifecycle out for instances on demand.
        InstanceState(item["InstanceId"], item["State"]["Name"], item.get("InstanceLifecycle") == "spot", item.get("LaunchTime"))
        for item in answer.get("Instances") or ()
    ]


def read_size(answer: Mapping[str, Any]) -> InstanceSize:
    """A type of DescribeInstanceTypes. Raises LookupError, TypeError and ValueError for what is none."""
    processors = (answer.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
    gpus = (answer.get("GpuInfo") or {}).get("Gpus") or ()
    return InstanceSize(
        answer["InstanceType"],
        int(answer["VCpuInfo"]["DefaultVCpus"]),
        int(answer["MemoryInfo"]["SizeInMiB"]),
        sum(int(gpu.get("Count") or 0) for gpu in gpus),
        # EC2 says x86_64, and i386 beside it for old types.
        "arm64" if "arm64" in processors else "amd64",
    )


FILE = "instance_sizes.csv"


@lru_cache(maxsize=1)
def read_table() -> dict[str, InstanceSize]:
    """All types of the table, by name."""
    text = (resources.files("streams.clients.aws") / FILE).read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines())
    return {name: InstanceSize(name, int(vcpus), int(memory), int(gpus), kind) for name, vcpus, memory, gpus, kind in rows}


_HEAD = ["type", "on_demand", "spot"]
_MOST = 100_000.0
# A list of all types that there are takes a twentieth of it.
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


def read_prices(path: Path) -> InstancePrices:
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
        # No comparison lets this through, so one message serves for text and for numbers that are no price.
        price = math.nan
    if not 0 <= price <= _MOST:
        raise BadInput(f"the prices '{path}' make no sense in line {number}: '{text[:_SHOWN]}' is no price")
    return price
