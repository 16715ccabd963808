"""Units of the amounts that events carry. A number on the wire always has one of these types."""

import math
from typing import Final, NewType

Cores = NewType("Cores", float)
"""CPU in cores; 0.25 is 250 millicores."""

Bytes = NewType("Bytes", int)
"""Memory in bytes."""

Seconds = NewType("Seconds", float)
"""A length of time in seconds."""

Fraction = NewType("Fraction", float)
"""A share, 0 to 1 unless its field says otherwise."""

_DUST: Final = 1e-6
"""Millicores below this are what binary fractions leave behind, not a wish for one more."""


def millicores(cores: Cores) -> int:
    """Whole millicores, rounded up as Kubernetes rounds anything finer."""
    # 0.1 + 0.2 cores are 300 millicores, not 301.
    return math.ceil(cores * 1000 - _DUST)


_SIZES: Final = (
    ("B", 1, 0, 1024.0),
    ("KiB", 1 << 10, 1, 102.4),
    ("MiB", 1 << 20, 1, 1024.0),
    ("GiB", 1 << 30, 2, 1024.0),
    ("TiB", 1 << 40, 2, 1024.0),
    ("PiB", 1 << 50, 2, 1024.0),
    ("EiB", 1 << 60, 2, math.inf),
)
"""Of each unit its bytes, the decimals that are shown, and the number from which on the next one is used."""


def cpu_text(cores: float) -> str:
    """CPU for people: whole millicores or, where there are many, cores; what is there but rounds to none is less than 1m."""
    sign = "-" if cores < 0 else ""
    milli = f"{abs(cores) * 1000:.0f}m"
    # From 100 cores on, whole millicores are longer than anybody reads.
    if len(milli) > len("99999m"):
        return f"{cores:,.1f} cores"
    return f"{sign}<1m" if milli == "0m" and cores else f"{sign}{milli}"


def bytes_text(size: float) -> str:
    """Memory for people, in the unit in which it is a number of up to four digits; none is `0 MiB`."""
    if not size:
        return "0 MiB"
    unit, scale, digits, _ = next(
        size_unit for size_unit in _SIZES if round(abs(size) / size_unit[1], size_unit[2]) < size_unit[3]
    )
    return f"{size / scale:,.{digits}f} {unit}"


def counted(number: int, noun: str) -> str:
    """A count for people, as `1 pod` and `2 pods`, of a noun that takes an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counted_are(number: int, noun: str) -> str:
    """The same with its verb, as `1 pod is` and `2 pods are`."""
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"


def amount_text(resource: str, amount: float) -> str:
    """An amount of a resource, or of what a quota bounds, for people: cores, bytes, or pieces of anything else."""
    kind = resource.rpartition(".")[2]
    if kind == "cpu":
        return cpu_text(amount)
    sized = kind in ("memory", "storage", "ephemeral-storage") or kind.startswith("hugepages-")
    return bytes_text(amount) if sized else f"{amount:,.0f}"


def amount_texts(resource: str, *amounts: float) -> list[str]:
    """The same of amounts that stand beside each other: in all digits where two that differ would look alike."""
    texts = [amount_text(resource, amount) for amount in amounts]
    if len(set(texts)) == len(set(amounts)):
        return texts
    # Kubernetes keeps billionths of a core, and bytes.
    return [
        f"{amount * 1000:,.6f}".rstrip("0").rstrip(".") + "m" if resource.endswith("cpu") else f"{amount:,.0f} B"
        for amount in amounts
    ]
