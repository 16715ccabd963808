"""Label sets as one text, and which of them a selector matches."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from schemas.policies.selectors import Requirement

UNKNOWN = "?"
"""Stands for the labels of a pod that no source has told of."""

SEED = "checkpoint:"
"""Begins what stands in place of labels for history that came from a checkpoint of a VPA, whose name follows."""


def text(labels: Mapping[str, str]) -> str:
    """`a=1,b=2`, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


@lru_cache(maxsize=8192)
def matches(selector: tuple[Requirement, ...], labels: str) -> bool:
    """Whether labels, as their text, meet all requirements."""
    return met(selector, dict(part.split("=", 1) for part in labels.split(",") if "=" in part))


def met(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements."""
    return all(requirement.holds(labels.get(requirement.key)) for requirement in selector)
