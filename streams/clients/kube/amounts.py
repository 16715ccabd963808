"""Amounts as a cluster keeps and spells them: CPU in whole millicores, memory in whole bytes.

Two amounts that a cluster cannot tell apart are the same. Refuses quantities that Kubernetes would refuse.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

from kubernetes.utils.quantity import parse_quantity

from schemas.names import Amounts
from schemas.units import Bytes, Cores

_DUST = 1e-6
"""Of a millicore: what binary fractions leave behind, not a wish for one more."""


def millicores(cores: Cores) -> int:
    """Whole millicores, rounded up as Kubernetes does with anything finer."""
    return math.ceil(cores * 1000 - _DUST)


def settled(amounts: Amounts) -> Amounts:
    """The amounts as the cluster will show them after it has taken them."""
    return Amounts(
        cpu=None if amounts.cpu is None else Cores(millicores(amounts.cpu) / 1000),
        memory=None if amounts.memory is None else Bytes(math.ceil(amounts.memory)),
    )


def same(left: Mapping[str, Amounts], right: Mapping[str, Amounts]) -> bool:
    """Whether a cluster would show the same for both; a container without amounts is like one that is not named."""
    names = left.keys() | right.keys()
    return all(settled(left.get(name, Amounts())) == settled(right.get(name, Amounts())) for name in names)


def over(old: Amounts, new: Amounts) -> Amounts:
    """The new amounts, and the old ones where the new say nothing: what a patch leaves behind."""
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)


def meets(asked: Mapping[str, Amounts], wanted: Mapping[str, Amounts]) -> bool:
    """Whether `asked` says already every amount that is wanted."""
    before = {name: asked.get(name, Amounts()) for name in wanted}
    return same({name: over(before[name], new) for name, new in wanted.items()}, before)


def spell(amounts: Amounts) -> dict[str, str]:
    """Kubernetes' spelling of what is set: `{"cpu": "250m", "memory": "1048576"}`."""
    spelled: dict[str, str] = {}
    if amounts.cpu is not None:
        spelled["cpu"] = f"{millicores(amounts.cpu)}m"
    if amounts.memory is not None:
        spelled["memory"] = str(math.ceil(amounts.memory))
    return spelled


def read(quantities: Mapping[str, str]) -> Amounts:
    """Inverse of `spell`, for any spelling. Raises ValueError that quotes a quantity which is none."""
    cpu, memory = quantities.get("cpu"), quantities.get("memory")
    return Amounts(
        cpu=None if cpu is None else Cores(number(cpu)),
        memory=None if memory is None else Bytes(math.ceil(number(memory))),
    )


@lru_cache(maxsize=1 << 14)
def number(quantity: str) -> float:
    """A quantity as a number. Raises ValueError that quotes a quantity which is none."""
    number = float(parse_quantity(quantity))  # type: ignore[no-untyped-call]  # the official client types no function of its utils
    if not math.isfinite(number):
        msg = f"'{quantity}' is no quantity"
        raise ValueError(msg)
    return number
