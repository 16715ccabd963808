"""Kubernetes' quantities as upstream rounds them: away from zero to whole thousandths of a core and whole bytes."""

import re
from decimal import ROUND_UP, Decimal

from schemas.names import Amounts

_SUFFIX = {"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_SUFFIX |= {s: Decimal(1000) ** i for i, s in enumerate("kMGTPE", 1)}
_SUFFIX |= {f"{s}i": Decimal(1024) ** i for i, s in enumerate("KMGTPE", 1)}


def quantity(text: str) -> Decimal:
    """The exact number that a quantity names."""
    found = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)", text)
    assert found is not None, text
    return Decimal(found[1]) * _SUFFIX[found[2]]


def milli(text: str) -> int:
    """Whole thousandths, rounded up."""
    return int((quantity(text) * 1000).to_integral_value(ROUND_UP))


def whole(text: str) -> int:
    """Whole units, rounded up."""
    return int(quantity(text).to_integral_value(ROUND_UP))


def amounts(resources: dict[str, str] | None) -> Amounts:
    """A resource list."""
    found = resources or {}
    cpu, memory = found.get("cpu"), found.get("memory")
    return Amounts(None if cpu is None else milli(cpu) / 1000, None if memory is None else whole(memory))  # type: ignore[arg-type]  # units
