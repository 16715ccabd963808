"""Kubernetes quantities as whole milli-units, and back to the text that Kubernetes itself would write.

Amounts of any size are exact here, because a proposal computes with them. `exact_quantity` gives instead what Kubernetes makes of
thousandths that do not fit 64 bits, and refuses texts in Kubernetes' words rather than with an example.
Source: `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go` of Kubernetes.
"""

import re
from fractions import Fraction
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {-3: "m", 0: "", **{power: letter for letter, power in _DECIMAL.items() if power > 0}}


@lru_cache(maxsize=4096)
def milli(text: str) -> int:
    """A quantity in thousandths, rounded away from zero; `ValueError` if it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no quantity such as '500m', '2' or '1Gi'")
    number, exponent, suffix = match.groups()
    scale = Fraction(1024) ** _BINARY[suffix] if suffix in _BINARY else Fraction(10) ** _power(exponent, suffix)
    value = Fraction(number) * scale * 1000
    return -((-value.numerator) // value.denominator) if value > 0 else value.numerator // value.denominator


def _power(exponent: str | None, suffix: str | None) -> int:
    return int(exponent) if exponent else _DECIMAL[suffix] if suffix else 0


def text(thousandths: int) -> str:
    """The canonical text of so many thousandths: the largest decimal suffix that leaves a whole number."""
    if not thousandths:
        return "0"
    power = -3
    while thousandths % 1000 == 0 and power < max(_SUFFIXES):
        thousandths, power = thousandths // 1000, power + 3
    return f"{thousandths}{_SUFFIXES[power]}"
