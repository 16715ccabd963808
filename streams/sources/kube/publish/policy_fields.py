"""What is read alike of all objects by which somebody commands: whether they are too large, who wrote them, and their words."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from schemas import bounds, event_bounds
from schemas.policies.control import Author, KnownBy
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.policies.vpa import VpaChanged
from streams.clients.kube.pod_objects import AuthoredMeta

P = TypeVar("P", EhpaChanged, TimeSeriesPredictionChanged, VpaChanged)


# A tenant writes these objects, so both their fields and the bytes of their records are bounded.
def excess(policy: P, size: Callable[[P], int]) -> str:
    """The bound that a policy exceeds; empty if it exceeds none. `size` gives the bytes of a policy's record."""
    fault = event_bounds.fault(policy)
    if fault is not None:
        where, what = fault
        return f"{where.lstrip('.')} {what}"
    written = size(policy)
    if written > bounds.MOST_OBJECT_BYTES:
        return f"it takes {written} bytes; more than {bounds.MOST_OBJECT_BYTES} are not kept of one object"
    return ""


_LONGEST_NAME = 200
_NEVER = datetime.min.replace(tzinfo=UTC)


def author(meta: AuthoredMeta) -> Author | None:
    """The author of a spec; None where the object does not say."""
    # The API server keeps no user in an object; its audit log has the user of that moment.
    changes = [field for field in meta.managed_fields or () if not field.subresource and "f:spec" in (field.fields or {})]
    if not changes:
        return None
    last = max(changes, key=lambda change: change.time or _NEVER)
    when = "" if last.time is None else f" at {last.time.isoformat()}"
    return Author(f"{last.manager[:_LONGEST_NAME]}{when}", KnownBy.CLUSTER)


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
