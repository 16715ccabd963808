"""Selectors on labels: what a requirement demands, which selectors are valid, and whether labels meet them.

The same operators (In, NotIn, Exists, DoesNotExist, and Gt/Lt on nodes) serve label selectors of pods and namespaces and the node
selector terms of affinity. An invalid selector raises SelectorError, which readers of foreign objects turn into a refusal.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# Kubernetes' bounds, of the name and the value of a label and of the domain before the name.
LONGEST_VALUE = 63
LONGEST_PREFIX = 253

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
# Bounded, for Python would read integers of any length.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

Labels = Mapping[str, str]


class SelectorError(ValueError):
    """A selector that Kubernetes would not accept."""


class LabelOperator(StrEnum):
    """The operator of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One demand on the label `key`. Make it with `requirement`, which checks it."""

    key: str
    operator: LabelOperator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet it."""
        return self.accepts(labels.get(self.key))

    def accepts(self, value: str | None) -> bool:
        """Whether a label with this value (None: absent) meets it. Source: Requirement.Matches in apimachinery's pkg/labels."""
        if value is None:
            # In Kubernetes a label that is absent meets NotIn, too.
            return self.operator in (LabelOperator.NOT_IN, LabelOperator.ABSENT)
        if self.operator is LabelOperator.IN:
            return value in self.values
        if self.operator is LabelOperator.NOT_IN:
            return value not in self.values
        if self.operator in (LabelOperator.EXISTS, LabelOperator.ABSENT):
            return self.operator is LabelOperator.EXISTS
        # Gt and Lt have exactly one value, which `requirement` has checked.
        mine, limit = integer(value), integer(next(iter(self.values)))
        if mine is None or limit is None:
            return False
        return mine > limit if self.operator is LabelOperator.GREATER else mine < limit


@dataclass(frozen=True, slots=True)
class SchedulingSelector:
    """Demands that must all be met; without any it takes everything. `nothing` is the selector that is absent: it takes none."""

    requirements: tuple[LabelRequirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet all of it."""
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """Whether it makes no demand, so that it takes everything."""
        return not self.nothing and not self.requirements


EVERYTHING = SchedulingSelector()
NOTHING = SchedulingSelector(nothing=True)


def requirement(key: str, operator: str, values: tuple[str, ...]) -> LabelRequirement:
    """A requirement, if it is valid; else SelectorError. Source: NewRequirement in apimachinery's pkg/labels/selector.go."""
    try:
        word = LabelOperator(operator)
    except ValueError as error:
        raise SelectorError(f"'{operator}' is no operator of a selector") from error
    _check_key(key)
    if word in (LabelOperator.IN, LabelOperator.NOT_IN) and not values:
        raise SelectorError(f"'{word}' on '{key}' needs a value")
    if word in (LabelOperator.EXISTS, LabelOperator.ABSENT) and values:
        raise SelectorError(f"'{word}' on '{key}' takes no value")
    if word in (LabelOperator.GREATER, LabelOperator.LESS) and (len(values) != 1 or integer(values[0]) is None):
        raise SelectorError(f"'{word}' on '{key}' needs one integer")
    for value in values:
        _check_value(key, value)
    return LabelRequirement(key, word, frozenset(values))


def label_selector(match_labels: Labels, expressions: tuple[tuple[str, str, tuple[str, ...]], ...]) -> SchedulingSelector:
    """A selector on pods or namespaces, if it is valid; else SelectorError.

    Source: LabelSelectorAsSelector in apimachinery's pkg/apis/meta/v1/helpers.go: four operators, no Gt and no Lt.
    """
    equal = [requirement(key, LabelOperator.IN, (value,)) for key, value in sorted(match_labels.items())]
    for key, operator, _values in expressions:
        if operator in (LabelOperator.GREATER, LabelOperator.LESS):
            raise SelectorError(f"'{operator}' on '{key}' is no operator of a label selector")
    return SchedulingSelector((*equal, *(requirement(*expression) for expression in expressions)))


def equals(labels: Labels) -> SchedulingSelector:
    """Every one of these labels with exactly this value; nothing is checked, as in a pod's nodeSelector."""
    return SchedulingSelector(
        tuple(LabelRequirement(key, LabelOperator.IN, frozenset((value,))) for key, value in sorted(labels.items()))
    )


def integer(text: str) -> int | None:
    """The 64-bit integer that a label's value spells, or None if it spells none."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if len(name) > LONGEST_VALUE or _NAME.fullmatch(name) is None:
        raise SelectorError(f"'{key[:80]}' is no key of a label")
    if slash and (len(prefix) > LONGEST_PREFIX or _DOMAIN.fullmatch(prefix) is None):
        raise SelectorError(f"'{key[:80]}' has a prefix that is no domain")


def _check_value(key: str, value: str) -> None:
    if value and (len(value) > LONGEST_VALUE or _NAME.fullmatch(value) is None):
        raise SelectorError(f"'{value[:80]}' is no value of the label '{key}'")
