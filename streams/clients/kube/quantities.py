"""Amounts as Kubernetes writes them, so that a status reads like upstream's.

CPU is decimal: 1.5 cores are `1500m`, 0.2505 are `250500u`. Memory is binary while that is exact: 262144000 bytes are `250Mi`,
764046746 are just that. Below 1024 bytes memory is decimal too. An amount that a policy's bound gave keeps its value here, not
the unit in which the policy wrote it.
"""

from fractions import Fraction

_DECIMAL = ("u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_KI = 1024


def cpu(cores: float) -> str:
    """Cores as text, to the millionth."""
    return _decimal(round(cores * 1_000_000))


def memory(amount: int, *, humanize: bool = False) -> str:
    """Bytes as text; humanized ones as upstream's API server gives them back, cut to two decimals of their unit."""
    exact = Fraction(humanized(amount)[0]) if humanize else Fraction(amount)
    if exact.denominator != 1:
        return _decimal(-(-exact.numerator * 1000 // exact.denominator) * 1000)
    amount = exact.numerator
    if abs(amount) < _KI:
        return _decimal(amount * 1_000_000)
    power = 0
    while power + 1 < len(_BINARY) and amount % _KI == 0:
        amount, power = amount // _KI, power + 1
    return f"{amount}{_BINARY[power]}"


def humanized(amount: int) -> tuple[Fraction, str]:
    """Bytes in the largest unit that gives at least 1, with two decimals: what the text means, and the text."""
    power = min(4, max(0, (amount.bit_length() - 1) // 10)) if amount > 0 else 0
    if power == 0:
        return Fraction(amount), str(amount)
    text = f"{amount / _KI**power:.2f}"
    return Fraction(text) * _KI**power, f"{text}{_BINARY[power]}"


def _decimal(millionths: int) -> str:
    power = 0
    while power + 1 < len(_DECIMAL) and millionths and millionths % 1000 == 0:
        millionths, power = millionths // 1000, power + 1
    return f"{millionths}{_DECIMAL[power]}" if millionths else "0"
