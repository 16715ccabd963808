"""Amounts as people type them, `cpu=250m,memory=512Mi`, with Kubernetes' own reading of quantities."""

from collections.abc import Mapping

from schemas.names import Amounts
from schemas.units import Bytes
from streams.clients.kube.amounts import read
from streams.errors import BadInput

_NAMES = ("cpu", "memory")


def pairs(text: str, where: str) -> Mapping[str, str]:
    """`cpu=250m,memory=512Mi` as a mapping; nothing for an empty text. Raises BadInput that names `where`."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, quantity = part.partition("=")
        if not equals or name.strip() in found:
            raise BadInput(f"{where} '{text}' is not of the form cpu=250m,memory=512Mi")
        found[name.strip()] = quantity.strip()
    return found


def amounts(quantities: Mapping[str, str], where: str) -> Amounts:
    """The amounts. Raises BadInput that names the value and `where` it stands."""
    for name, quantity in quantities.items():
        if name not in _NAMES:
            raise BadInput(f"{where} names '{name}'; there are cpu and memory")
        _checked(name, quantity, where)
    return read(quantities)


def spelled(amounts: Amounts) -> dict[str, str]:
    """As people write it: 250m, 512Mi; exact, because bytes that are no whole MiB are written out."""
    said = {}
    if amounts.cpu is not None:
        said["cpu"] = f"{amounts.cpu * 1000:.10g}m"
    if amounts.memory is not None:
        said["memory"] = _memory(amounts.memory)
    return said


def _checked(name: str, quantity: str, where: str) -> None:
    try:
        found = read({name: quantity})
    except ValueError:
        raise BadInput(f"{where} {name} '{quantity}' is no quantity: write 250m or 0.25 for CPU, 512Mi for memory") from None
    amount = getattr(found, name)
    if amount < 0:
        raise BadInput(f"{where} {name} '{quantity}' is negative")


def _memory(size: Bytes) -> str:
    for unit, scale in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return str(size)
