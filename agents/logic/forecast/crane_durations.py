"""Parses Crane's options: durations and fractions, as Go reads them.

Source: `pkg/utils/time.go` of Crane, over Go's `time.ParseDuration` and `strconv.ParseFloat`. Every error is a
`ValueError` that quotes the text.
"""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SPAN = re.compile(rf"([+-]?)((?:{_PART.pattern})+)")
_DAYS = re.compile(r"([+-]?\d+)d")
_DECIMAL = re.compile(r"[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX]_?[\da-fA-F]+\.?[\da-fA-F]*[pP][+-]?\d+")
_WORDS = frozenset({"nan", "inf", "infinity"})
_DAY = 86_400.0
_LONGEST = 2.0**63 / 1e9
_MOST_CHARACTERS = 128
"""Nobody means a longer text as an option, and the time to parse one grows with the square of its length."""


def duration(text: str) -> float:
    """Seconds; Go's syntax (`1h30m`, `1.5h`) or whole days (`7d`), never both."""
    _short(text)
    # Crane looks for whole days first and hands everything else to Go, so `1d12h` is no duration.
    if days := _DAYS.fullmatch(text):
        return _bounded(text, float(days[1]) * _DAY)
    if text in ("0", "+0", "-0"):
        return 0.0
    span = _SPAN.fullmatch(text)
    if span is None:
        raise ValueError(f"'{text}' is no duration such as '1m', '1h30m' or '7d'")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(span[2]))
    return _bounded(text, -seconds if span[1] == "-" else seconds)


def _short(text: str) -> None:
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"'{text[:20]}...' has {len(text)} characters; more than {_MOST_CHARACTERS} are not read")


def _bounded(text: str, seconds: float) -> float:
    if abs(seconds) > _LONGEST:
        raise ValueError(f"'{text}' is no duration that Go can hold: 292 years are the longest")
    return seconds


def number(text: str) -> float:
    """A number. Like Go, it also reads `NaN` and `Inf`; the caller must refuse those."""
    _short(text)
    if _DECIMAL.fullmatch(text) or text[text.startswith(("+", "-")) :].lower() in _WORDS:
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        try:
            # Python takes no underscores in hexadecimal numbers.
            return float.fromhex(text.replace("_", ""))
        except OverflowError as error:
            raise ValueError(f"'{text}' is larger than any number that Go can hold") from error
    raise ValueError(f"'{text}' is not a number")
