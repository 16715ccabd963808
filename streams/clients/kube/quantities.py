"""Kubernetes quantities: text to amounts and back, and when two amounts are the same to a cluster.

A cluster keeps CPU in whole millicores and memory in whole bytes, so amounts that differ by less are the same to it. It refuses
quantities that Kubernetes would refuse. `canonical_cpu` and `canonical_memory` write amounts the way Kubernetes itself does, so
that a status that we write reads like upstream's.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

from schemas import exact_quantity
from schemas.exact_quantity import Form, NotAQuantityError
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Seconds, millicores

_BINARY = ("", "Ki", "Mi", "Gi", "Ti")
_NANO = 10**9
_KI = 1024
_LONGEST = 64  # characters; Kubernetes' largest quantity has 19 digits before the point and 9 behind it
_FURTHEST = 10**30  # no amount is as large as this


@lru_cache(maxsize=1 << 14)
def parse(quantity: str) -> float:
    """A quantity as a number, in its base unit. Raises ValueError that quotes text which is no quantity."""
    return float(exact(quantity))


@lru_cache(maxsize=1 << 14)  # the pods of a rollout, and what each of them shows, say the same again and again
def exact(quantity: str) -> Fraction:
    """A quantity as an exact number. Raises ValueError for text that is none, or is far beyond any real amount."""
    if len(quantity) > _LONGEST:
        msg = f"'{quantity[:_LONGEST]}…' has {len(quantity)} characters, and no quantity has more than {_LONGEST}"
        raise ValueError(msg)
    try:
        number = Fraction(exact_quantity.parse(quantity).nano, _NANO)
    except NotAQuantityError as error:
        msg = f"'{quantity}' is no quantity: {error}"
        raise ValueError(msg) from None
    if abs(number) >= _FURTHEST:
        msg = f"'{quantity}' is no quantity: no amount is as large as that"
        raise ValueError(msg)
    return number


def read_amounts(quantities: Mapping[str, str], whole: Callable[[Fraction], int] = math.ceil) -> Amounts:
    """CPU and memory of a `requests`, `limits` or `usage` object. Raises ValueError that names the resource, too.

    A cluster keeps `whole` bytes, and fewer than are asked for would not be enough.
    """
    return _amounts(quantities.get("cpu"), quantities.get("memory"), whole)


def read_most(quantities: Mapping[str, str]) -> Amounts:
    """The same of what amounts may be at most, such as limits: whole bytes within it, as `1.3Gi` is no whole number of them."""
    return read_amounts(quantities, math.floor)


@lru_cache(maxsize=1 << 14)  # as above
def _amounts(cpu: str | None, memory: str | None, whole: Callable[[Fraction], int]) -> Amounts:
    cores, size = _exact_or_none("cpu", cpu), _exact_or_none("memory", memory)
    return Amounts(
        cpu=None if cores is None else Cores(float(cores)),
        memory=None if size is None else Bytes(whole(size)),
    )


def _exact_or_none(name: str, text: str | None) -> Fraction | None:
    try:
        return None if text is None else exact(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def spell_amounts(amounts: Amounts) -> dict[str, str]:
    """The object that sets these amounts, such as `{"cpu": "250m", "memory": "1048576"}`; amounts that are not set are absent."""
    spelled: dict[str, str] = {}
    if amounts.cpu is not None:
        spelled["cpu"] = f"{millicores(amounts.cpu)}m"
    if amounts.memory is not None:
        spelled["memory"] = str(math.ceil(amounts.memory))
    return spelled


def settled(amounts: Amounts) -> Amounts:
    """The amounts as the cluster shows them once it has accepted them."""
    return Amounts(
        cpu=None if amounts.cpu is None else Cores(millicores(amounts.cpu) / 1000),
        memory=None if amounts.memory is None else Bytes(math.ceil(amounts.memory)),
    )


def same(left: Mapping[str, Amounts], right: Mapping[str, Amounts]) -> bool:
    """Whether a cluster would show both alike, container by container. A missing container counts as one without amounts."""
    names = left.keys() | right.keys()
    return all(settled(left.get(name, Amounts())) == settled(right.get(name, Amounts())) for name in names)


def merged(old: Amounts, new: Amounts) -> Amounts:
    """What a patch leaves behind: the new amounts, and the old ones where the patch sets none."""
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)


def meets(current: Mapping[str, Amounts], wanted: Mapping[str, Amounts]) -> bool:
    """Whether `asked` already has every amount in `wanted`, container by container."""
    before = {name: current.get(name, Amounts()) for name in wanted}
    return same({name: merged(before[name], new) for name, new in wanted.items()}, before)


def canonical_cpu(cores: float) -> str:
    """Cores as Kubernetes writes them, to the millionth: 1.5 is `1500m`, 0.2505 is `250500u`."""
    return exact_quantity.of_nano(round(cores * 1_000_000) * 1000).text


def canonical_memory(amount: int, *, humanize: bool = False) -> str:
    """Bytes as Kubernetes writes them: 262144000 is `250Mi`, but 764046746 stays as it is, because no binary unit is exact.

    With `humanize` the amount is first cut to two decimals of its unit (see `humanized`), and the text is what upstream's API
    server returns for that.
    """
    # The unit in which a policy wrote a bound is not kept, and below 1024 bytes the text is decimal, both as upstream's is.
    exact = humanized(amount)[0] if humanize else Fraction(amount)
    if exact.denominator != 1:
        return exact_quantity.of_milli(math.ceil(exact * 1000)).text
    return exact_quantity.of_whole(exact.numerator, Form.BINARY).text


def humanized(amount: int) -> tuple[Fraction, str]:
    """Bytes in the largest unit that gives at least 1, with two decimals: the value in bytes, and the text."""
    power = min(4, max(0, (amount.bit_length() - 1) // 10)) if amount > 0 else 0
    if power == 0:
        return Fraction(amount), str(amount)
    text = f"{amount / _KI**power:.2f}"
    return Fraction(text) * _KI**power, f"{text}{_BINARY[power]}"


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def parse_duration(duration: str) -> Seconds:
    """A duration in seconds, from Go's spelling as far as metrics servers use it: `1m0s`, `30.5s`. Raises ValueError."""
    total, number = 0.0, ""
    for letter in duration:
        if letter in _UNITS:
            total, number = total + float(number) * _UNITS[letter], ""
        else:
            number += letter
    if number:
        msg = f"the window '{duration}' is not a duration such as '1m0s'"
        raise ValueError(msg)
    return Seconds(total)
