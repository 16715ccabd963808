"""The priority expander's configuration: which groups go first, by patterns on their names.

The patterns come from a ConfigMap and are matched against the names of groups. They must be valid for Go's engine, and must not
keep Python's engine busy for ever.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agents.logic.nodes.scheduling.scheduling_selectors import integer

MOST_PATTERNS = 10_000
LONGEST_PATTERN = 512
MOST_REPETITIONS = 2
"""Repetitions of any kind in one pattern, without one of anything at its end, which costs nothing."""
MOST_CHOICES = 256
"""Ways through the choices of a pattern's groups."""

_LARGEST = 2**63


class PrioritiesError(ValueError):
    """A configuration that cannot be used; upstream then lets every option pass."""


@dataclass(frozen=True, slots=True)
class Priorities:
    """Patterns by priority; the highest that matches a group counts."""

    patterns: Mapping[int, tuple[re.Pattern[str], ...]]

    def of(self, group: str) -> int | None:
        """The priority of a group, or None if no pattern matches its name."""
        return max((prio for prio, patterns in self.patterns.items() if any(p.search(group) for p in patterns)), default=None)


def read(document: object) -> Priorities:
    """The configuration from its YAML as a document of maps and lists; raises PrioritiesError.

    Keys are integers (also as text), values lists of patterns. Source: parsePrioritiesYAMLString in
    expander/priority/priority.go.
    """
    if document is None:
        return Priorities({})
    if not isinstance(document, dict):
        raise PrioritiesError("the priorities are no map")
    if sum(len(listed) for listed in document.values() if isinstance(listed, list)) > MOST_PATTERNS:
        raise PrioritiesError(f"more than {MOST_PATTERNS} patterns are refused")
    return Priorities({_priority(key): _patterns(listed) for key, listed in document.items()})


def _priority(key: object) -> int:
    number = integer(key) if isinstance(key, str) else key
    if not isinstance(number, int) or isinstance(number, bool) or not -_LARGEST <= number < _LARGEST:
        raise PrioritiesError(f"'{str(key)[:80]}' is no integer")
    return number


def _patterns(listed: object) -> tuple[re.Pattern[str], ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise PrioritiesError("the patterns of a priority are no list")
    return tuple(pattern(_text(item)) for item in listed)


def _text(item: object) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str | int | float):
        return str(item)
    raise PrioritiesError("a pattern is no text")


def pattern(text: str) -> re.Pattern[str]:
    """A pattern that both engines accept and that matches in reasonable time; raises PrioritiesError."""
    if len(text) > LONGEST_PATTERN:
        raise PrioritiesError(f"a pattern of {len(text)} characters is refused; {LONGEST_PATTERN} are the most")
    # Without escapes and classes, in which the signs below mean themselves.
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", text, flags=re.DOTALL)
    if re.search(r"\(\?(?![imsU:-]|P?<[A-Za-z_])|\(\?P?<[=!]|\(\?P=", plain) or re.search(r"\\[1-9]", text):
        raise PrioritiesError(f"'{text}' uses what Go's patterns do not have")
    repetitions = re.findall(r"(?<!\()[*+?{]\??", plain.removesuffix(".*"))
    # Go's engine takes a time in proportion to the text. Python's tries all ways, of which these make exponentially many.
    if len(repetitions) > MOST_REPETITIONS or _choices(plain) > MOST_CHOICES or _repeats_a_choice(plain):
        raise PrioritiesError(f"'{text}' could take for ever to match")
    try:
        # Go takes both forms of a named group.
        return re.compile(text.replace("(?<", "(?P<"))
    except (re.error, OverflowError, RecursionError) as error:
        raise PrioritiesError(f"'{text}' is no pattern: {error}") from error


def _choices(plain: str) -> int:
    """In how many ways a text can pass through the groups with alternatives."""
    ways, open_groups = 1, [0]
    for letter in plain:
        if letter == "(":
            open_groups.append(1)
        elif letter == "|":
            open_groups[-1] += 1
        elif letter == ")" and len(open_groups) > 1:
            ways *= open_groups.pop()
    return ways


def _repeats_a_choice(plain: str) -> bool:
    """Whether a group that repeats or chooses inside is itself repeated without bound."""
    open_groups = [False]
    for place, letter in enumerate(plain):
        if letter == "(":
            open_groups.append(False)
        elif letter in "*+|{":
            open_groups[-1] = True
        elif letter == ")" and len(open_groups) > 1:
            inner = open_groups.pop()
            if inner and plain[place + 1 : place + 2] in ("*", "+", "{"):
                return True
            open_groups[-1] = open_groups[-1] or inner
    return False
