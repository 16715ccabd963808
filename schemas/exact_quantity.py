"""Quantities as Kubernetes reads, compares, rounds and writes them: exact, and at a cost that the text's length bounds.

An amount is a whole number of billionths, because Kubernetes keeps nothing finer: it rounds away from zero. Beside it stand the
two roundings that the autoscaler computes with, and the text that Kubernetes would write. Refuses what Kubernetes refuses, with
the same message, and texts longer than any sensible quantity. Source: apimachinery, pkg/api/resource/quantity.go.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

MOST = 2**63 - 1
"""The largest whole number that Kubernetes computes with."""
LONGEST = 256
"""Characters of the longest text that is read."""

_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"

_SHAPE = re.compile(r"([+-]?)0*([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_SUFFIX_OF = {power: text for text, power in _DECIMAL.items()}
_BINARY_OF = ("", *_BINARY)

_NANO = 10**9
_FAST_DIGITS = 18
_FAST_BINARY = 15
_FINEST = -9
_LARGEST = 60
"""Amounts of more decimal digits than this are all taken for the same: none of them fits anything."""
_BEYOND = 10**69
_KI = 1024
_UNCHECKED = (1, 2, 3, 6, 9)
"""Powers of ten that Kubernetes multiplies by without a look at the overflow."""


class Form(StrEnum):
    """How an amount is written."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class NotAQuantityError(ValueError):
    """A text is no quantity. The message is Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount."""

    nano: int  # Billionths, exactly.
    # Thousandths, and below them units, rounded away from zero; where they do not fit 64 bits, what Kubernetes takes for them.
    milli: int
    whole: int
    text: str  # As Kubernetes writes it, in the given form.
    form: Form

    @property
    def thousandths(self) -> int:
        """Thousandths, rounded away from zero, even where Kubernetes' own thousandths would not fit 64 bits."""
        return _up(self.nano, 10**6)

    def __bool__(self) -> bool:
        """Whether it is not zero; Kubernetes' zero stands for "not set" in most places."""
        return self.nano != 0


def read(value: object) -> Quantity:
    """What a manifest says: a text or a number, or null, which is zero. Raises NotAQuantityError."""
    if isinstance(value, str):
        return parse(value.strip())
    if value is None:
        return parse("0")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAQuantityError(_WRONG)
    if isinstance(value, int):
        # Before `str`, which Python refuses for longer numbers with an error of its own.
        if value.bit_length() > _LARGEST * 4:
            raise NotAQuantityError(f"a quantity has at most {_LARGEST} digits here")
        return parse(str(value))
    return parse(repr(value))


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> Quantity:
    """Raises NotAQuantityError, also for a text longer than LONGEST. ParseQuantity, with both of its ways."""
    if len(text) > LONGEST:
        raise NotAQuantityError(f"a quantity has at most {LONGEST} characters here, not {len(text)}")
    match = _SHAPE.fullmatch(text)
    if not text or match is None:
        raise NotAQuantityError(_WRONG)
    sign = -1 if match[1] == "-" else 1
    digits, fraction, suffix = match[2] or "0", match[4] or "", match[5]
    # A zero of any length is upstream's shortest way, with no look at a suffix.
    if not text[len(match[1]) :].strip("0"):
        return Quantity(0, 0, 0, "0", Form.DECIMAL)
    form, power = _meaning(suffix)
    shifted = digits + fraction
    if form is Form.BINARY:
        factor, scale = 2**power, -len(fraction)
        digits_left = _FAST_BINARY - len(digits) - power * 3 // 10 - 1
        # Upstream has two ways, which differ in what they keep of the text and in where they overflow.
        fast = not fraction and digits_left >= 0 and int(shifted) * factor <= MOST
    else:
        factor, scale = 1, _int32(power - len(fraction))
        fast = len(shifted) <= _FAST_DIGITS and scale >= _FINEST
    if fast:
        kept = _keeps_text(form, shifted, scale)
        return _amount(sign * int(shifted) * factor, scale, form, kept=text if kept else "")
    # Only the slow way looks whether there is a digit at all, so only here is it refused.
    if not match[2] and not fraction and not text[len(match[1]) :].startswith("0"):
        raise NotAQuantityError(_NUMERIC)
    return _exact(sign, int(shifted) * factor, scale, form)


def of_milli(amount: int, form: Form = Form.DECIMAL) -> Quantity:
    """So many thousandths."""
    return _amount(amount, -3, form)


def of_whole(amount: int, form: Form = Form.BINARY) -> Quantity:
    """So many units."""
    return _amount(amount, 0, form)


def of_nano(amount: int, form: Form = Form.DECIMAL) -> Quantity:
    """So many billionths."""
    return _amount(amount, _FINEST, form)


ZERO = Quantity(0, 0, 0, "0", Form.DECIMAL)
ZERO_BYTES = Quantity(0, 0, 0, "0", Form.BINARY)


def total(amounts: list[Quantity]) -> Quantity:
    """The sum, exactly."""
    return of_nano(sum(amount.nano for amount in amounts))


def _meaning(suffix: str) -> tuple[Form, int]:
    if suffix in _DECIMAL:
        return Form.DECIMAL, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Form.BINARY, _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    power = int(match[1]) if match else MOST + 1
    if not -MOST - 1 <= power <= MOST:
        raise NotAQuantityError(_SUFFIX)
    return Form.EXPONENT, _int32(power)


def _int32(value: int) -> int:
    """The value after a conversion to 32 bits."""
    return (value + 2**31) % 2**32 - 2**31


def _int64(value: int) -> int:
    """The value after a conversion to 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def _keeps_text(form: Form, shifted: str, scale: int) -> bool:
    """Whether Kubernetes takes the text for canonical and writes it back unchanged."""
    if form is Form.BINARY:
        return int(shifted) % 8 != 0
    # Upstream's own test, which lets some texts through that are not canonical; the log has to show what it shows.
    return scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


@lru_cache(maxsize=1 << 14)
def _amount(mantissa: int, scale: int, form: Form, kept: str = "") -> Quantity:
    """The amount in Kubernetes' fast form: 64 bits and a power of ten."""
    text = kept or _text(mantissa, scale, form)
    return Quantity(_nano(mantissa, scale), _fast(mantissa, scale + 3), _fast(mantissa, scale), text, form)


def _fast(mantissa: int, power: int) -> int:
    """The amount times a power of ten in 64 bits, rounded away from zero. AsScaledInt64, and what it leaves of an overflow."""
    if power <= 0:
        return _up(mantissa, int(10**-power))
    # 10 to the 19 fits no int64, so upstream has no factor for it.
    if power > _FAST_DIGITS:
        return 0
    product = mantissa * int(10**power)
    return product if abs(product) <= MOST else _int64(product) if power in _UNCHECKED else 0


def _exact(sign: int, mantissa: int, scale: int, form: Form) -> Quantity:
    """The amount in Kubernetes' slow form: billionths of any size."""
    if scale < _FINEST:
        places = _FINEST - scale
        mantissa, scale = (_up(mantissa, 10**places) if places <= len(str(mantissa)) else min(mantissa, 1)), _FINEST
    if form is Form.BINARY:
        # Upstream caps binary amounts alone; others may grow beyond 64 bits.
        if mantissa > MOST * 10**-scale:
            return _amount_of_most(sign)
        if 0 < mantissa < 10**-scale:
            form = Form.DECIMAL
    mantissa *= sign
    billionths = mantissa * 10 ** min(scale - _FINEST, 80)  # beyond that, 64 bits of it are all 0
    return Quantity(
        _nano(mantissa, scale), _slow(billionths, 10**6), _slow(billionths, _NANO), _text(mantissa, scale, form), form
    )


def _amount_of_most(sign: int) -> Quantity:
    most = sign * MOST
    return Quantity(most * _NANO, _int64(most * 1000), most, _text(most, 0, Form.BINARY), Form.BINARY)


def _slow(billionths: int, divisor: int) -> int:
    """Divided, rounded up, and cut to 64 bits as scaledValue cuts: what is negative before the division, the rest after it."""
    if billionths >= 0:
        # Upstream's big integers lose their upper bits when they become an int64, without an error.
        return _int64(_up(billionths, divisor))
    cut = _int64(billionths)
    return abs(cut) // divisor * (1 if cut > 0 else -1) + (cut % divisor != 0)


def _nano(mantissa: int, scale: int) -> int:
    if mantissa == 0:
        return 0
    # The length is looked at first: `1e999999999` would otherwise be computed.
    if len(str(abs(mantissa))) + scale > _LARGEST:
        return _BEYOND if mantissa > 0 else -_BEYOND
    return mantissa * int(10 ** (scale - _FINEST))


def _up(amount: int, divisor: int) -> int:
    """Divided and rounded away from zero."""
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def _text(mantissa: int, scale: int, form: Form) -> str:
    """Canonical: no fraction, and the largest suffix that needs none. CanonicalizeBytes."""
    if mantissa == 0:
        return "0"
    if form is Form.BINARY:
        whole, rest = divmod(mantissa * 10 ** max(0, scale), 10 ** max(0, -scale))
        if rest == 0 and abs(whole) >= _KI:
            power = 0
            while whole % _KI == 0 and power + 1 < len(_BINARY_OF):
                whole, power = whole // _KI, power + 1
            return f"{whole}{_BINARY_OF[power]}"
    digits = str(mantissa)
    bare = digits.rstrip("0")
    scale += len(digits) - len(bare)
    power = scale // 3 * 3
    if form is not Form.EXPONENT:
        power = min(power, 18)
    number = bare + "0" * (scale - power)
    if form is Form.EXPONENT:
        return f"{number}e{power}" if power else number
    return f"{number}{_SUFFIX_OF[power]}"
