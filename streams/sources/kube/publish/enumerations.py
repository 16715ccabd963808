"""Reads words of a spec that name one of a few things."""

from enum import StrEnum
from typing import TypeVar

W = TypeVar("W", bound=StrEnum)
_LONGEST = 80
"""Characters that are quoted of a word that names nothing."""


def member(path: str, text: str, kind: type[W]) -> W:
    """The member of an enumeration that the text at `path` names. Raises ValueError with the place and what there is."""
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{path} is '{text[:_LONGEST]}'; there are {', '.join(kind)}") from None


def optional_member(path: str, text: str | None, kind: type[W]) -> W | None:
    """As `member`; None for no text."""
    return member(path, text, kind) if text else None
