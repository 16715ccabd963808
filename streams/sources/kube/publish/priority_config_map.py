"""The ConfigMap of upstream's priority expander as a fact. If it cannot be read, the fact says so in a sentence."""

from dataclasses import replace
from datetime import datetime

import yaml

from schemas import event_bounds
from schemas.facts.nodes import ExpanderPrioritiesSeen
from streams.clients.kube.scheduling_objects import ConfigMapObject

KEY = "priorities"
_LONGEST = 64 << 10
"""Characters that are read; a list that nobody can bear to read is refused."""
_MOST_LENGTH = 16_000  # characters of the fact: an alias can make a long list of a short text

_TOO_MANY = f"the priorities list more than {_MOST_LENGTH} characters of patterns"
_LONGEST_NUMBER = 1000
"""Bits."""
_MOST_EVENTS = 2 * _MOST_LENGTH
"""Events of the YAML parser; a list of patterns that fits the fact has no more."""
_DEEPEST = 20
"""Levels; the priorities have two."""
_MERGE = "tag:yaml.org,2002:merge"
# libyaml's where it is installed: the one in Python takes seconds for 64 KiB, and nothing else is published meanwhile.
_LOADER: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UnreadableError(ValueError):
    """The sentence why there are no priorities."""


def seen(config_map: ConfigMapObject, cluster: str, at: datetime) -> ExpanderPrioritiesSeen:
    """The fact about the ConfigMap. Source: reloadConfigMap in expander/priority/priority.go."""
    meta = config_map.metadata
    try:
        patterns, why = _patterns((config_map.data or {}).get(KEY)), ""
    except _UnreadableError as error:
        patterns, why = {}, str(error)[:2000]
    fact = ExpanderPrioritiesSeen(at, cluster, meta.namespace, meta.name, patterns, why)
    fault = event_bounds.fault(fact)
    if fault is None:
        return fact
    return replace(fact, patterns={}, unsupported=f"the priorities are too large: {' '.join(fault).lstrip('.')}"[:2000])


def _patterns(text: str | None) -> dict[str, tuple[str, ...]]:
    """Patterns by priority. Raises _UnreadableError."""
    if not text:
        raise _UnreadableError(f"the ConfigMap has nothing under the key '{KEY}'")
    if len(text) > _LONGEST:
        raise _UnreadableError(f"the priorities have {len(text)} characters; {_LONGEST} are the most")
    try:
        _check_cost(text)
        document = yaml.load(text, _LOADER)  # noqa: S506  # both loaders are safe ones
    except _UnreadableError:
        raise
    except Exception as error:  # besides YAMLError, its constructors let any error of a value through
        raise _UnreadableError(f"the priorities are no YAML: {_plain(str(error))}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise _UnreadableError("the priorities are no map")
    length = 0
    patterns: dict[str, tuple[str, ...]] = {}
    for priority, listed in document.items():
        key = _text(priority, "a priority")
        patterns[key] = _listed(key, listed, _MOST_LENGTH - length)
        length += len(key) + sum(len(pattern) + 1 for pattern in patterns[key])
        if length > _MOST_LENGTH:
            raise _UnreadableError(_TOO_MANY)
    return patterns


def _check_cost(text: str) -> None:
    """Refuse text that costs too much to build."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, _LOADER)):
        match event:
            case yaml.CollectionStartEvent():
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.ScalarEvent() if event.tag == _MERGE or (event.value == "<<" and event.implicit[0]):  # of merges: no end
                raise _UnreadableError("the priorities have a merge ('<<'), which is not read")
            case _:
                pass
        if depth > _DEEPEST:  # libyaml crashes
            raise _UnreadableError("the priorities are nested too deeply")
        if number > _MOST_EVENTS:
            raise _UnreadableError(_TOO_MANY)


def _listed(priority: str, listed: object, most: int) -> tuple[str, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise _UnreadableError(f"the patterns of priority '{priority[:80]}' are no list")
    if len(listed) > most:
        raise _UnreadableError(_TOO_MANY)
    return tuple(_text(pattern, "a pattern") for pattern in listed)


def _text(item: object, what: str) -> str:
    """Raises _UnreadableError for what is no text, or none that a record can carry."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int) and item.bit_length() > _LONGEST_NUMBER:
        raise _UnreadableError(f"{what} is too large a number")
    if not isinstance(item, str | int | float):
        raise _UnreadableError(f"{what} is no text")
    if _plain(str(item)) != str(item):
        raise _UnreadableError(f"{what} is no Unicode text")
    return str(item)


def _plain(text: str) -> str:
    """A text without lone surrogates, which no record can carry."""
    return text.encode("utf-8", "replace").decode()
