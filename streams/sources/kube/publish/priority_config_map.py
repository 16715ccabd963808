"""The ConfigMap of upstream's priority expander as a fact. What cannot be read becomes a sentence in the fact, and no error."""

from datetime import datetime

import yaml

from schemas.facts.expander_priorities import ExpanderPrioritiesSeen
from streams.clients.kube.scheduling_objects import ConfigMapObject

KEY = "priorities"
_LONGEST = 64 << 10
"""Characters that are read; a list that nobody can bear to read is refused."""


class _UnreadableError(ValueError):
    """The sentence why there are no priorities."""


def seen(found: ConfigMapObject, cluster: str, at: datetime) -> ExpanderPrioritiesSeen:
    """The fact about the ConfigMap. Source: reloadConfigMap in expander/priority/priority.go."""
    meta = found.metadata
    try:
        patterns, why = _patterns((found.data or {}).get(KEY)), ""
    except _UnreadableError as error:
        patterns, why = {}, str(error)[:2000]
    return ExpanderPrioritiesSeen(at, cluster, meta.namespace, meta.name, patterns, why)


def _patterns(text: str | None) -> dict[str, tuple[str, ...]]:
    """Patterns by priority. Raises _UnreadableError."""
    if not text:
        raise _UnreadableError(f"the ConfigMap has nothing under the key '{KEY}'")
    if len(text) > _LONGEST:
        raise _UnreadableError(f"the priorities have {len(text)} characters; {_LONGEST} are the most")
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _UnreadableError(f"the priorities are no YAML: {error}") from error
    except RecursionError as error:
        raise _UnreadableError("the priorities are nested too deeply") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise _UnreadableError("the priorities are no map")
    return {str(priority): _listed(priority, listed) for priority, listed in document.items()}


def _listed(priority: object, listed: object) -> tuple[str, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise _UnreadableError(f"the patterns of priority '{str(priority)[:80]}' are no list")
    return tuple(_text(one) for one in listed)


def _text(item: object) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str | int | float):
        return str(item)
    raise _UnreadableError("a pattern is no text")
