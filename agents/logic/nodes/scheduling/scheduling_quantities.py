"""Kubernetes' quantities: '100m', '1.5Gi', '1e3' as exact numbers.

A quantity is kept in billionths, the finest unit that Kubernetes represents, so that both readings that the scheduler needs
(whole units and thousandths) round as upstream rounds: away from zero, because whoever asks for a little gets at least a little.
"""

import re
from dataclasses import dataclass

LARGEST = 2**63 - 1
"""The largest whole amount that upstream represents; anything above it is cut to it."""
MOST_CHARACTERS = 128
"""A longer text is no quantity; upstream takes any length, but nobody writes one."""

_NANO = 10**9
_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})", re.ASCII)
_FAR = 60
"""Powers of ten beyond this are past the largest amount, or below the smallest, whatever number stands before them."""


class QuantityError(ValueError):
    """A text that is no quantity."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount in billionths of its unit."""

    nano: int

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _away(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero. It may exceed 64 bits, where upstream's answer is undefined."""
        return _away(self.nano, _NANO // 1000)


def parse(text: str) -> Quantity:
    """The quantity that a text means; raises QuantityError.

    Source: ParseQuantity and parseQuantityString in k8s.io/apimachinery, pkg/api/resource/quantity.go. As there, a suffix alone
    ('Gi') means zero and '1.' means one.
    """
    found = _SHAPE.fullmatch(text) if 0 < len(text) <= MOST_CHARACTERS else None
    if found is None:
        raise QuantityError(f"'{text[:MOST_CHARACTERS]}' is no quantity")
    sign, whole, part, suffix = found[1], found[2], found[3] or "", found[4]
    digits = int((whole + part) or "0")
    nano = _scaled(digits, len(part), suffix, text)
    nano = min(nano, LARGEST * _NANO)
    return Quantity(-nano if sign == "-" else nano)


def _scaled(digits: int, places: int, suffix: str, text: str) -> int:
    """Digits with so many decimal places and a suffix, in billionths, rounded up."""
    if suffix in _BINARY:
        return _up(digits * _NANO * 2 ** _BINARY[suffix], 10**places)
    if suffix in _DECIMAL:
        power = _DECIMAL[suffix]
    else:
        exponent = _EXPONENT.fullmatch(suffix)
        if exponent is None:
            raise QuantityError(f"'{text}' ends in '{suffix}', which is no suffix of a quantity")
        power = int(exponent[1])
    if digits == 0:
        return 0
    power = max(min(power, _FAR + MOST_CHARACTERS), -_FAR - MOST_CHARACTERS) + 9 - places
    return digits * 10**power if power >= 0 else _up(digits, 10**-power)


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _away(amount: int, unit: int) -> int:
    return _up(amount, unit) if amount >= 0 else -_up(-amount, unit)
