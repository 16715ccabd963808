"""Settings as texts: what a flag, an environment variable or a child process is given, and the value that it stands for.

One rule holds for all of them, and for texts in the settings file. A list is its entries with commas between them, as in
`shop,web`, or a JSON list when an entry holds a comma itself; an empty text is the empty list. An empty text also unsets a
setting that may be unset. Every other text is read by the setting's own type.
"""

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from pydantic import BaseModel, SecretStr

from streams.errors import BadInput

MISREAD = "it is neither true nor false, as which YAML reads yes, no, on and off without quotes"
UNIT = (
    "it is a number without its unit: seconds (10m is 600), bytes (8Gi is 8589934592), cores (250m is 0.25), a share (5% is 0.05)"
)
"""What whoever copies the flags of an original, which have units, is told."""
Defaults = Mapping[str, object]
"""Dotted names of settings to their defaults; the default shows whether a setting is a list, and whether it may be unset."""


def written(value: object) -> str:
    """The text of a value. `read` gives back what the setting's type turns into the same value."""
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return _list(list(value))
    return str(value)


def share(text: str) -> float:
    """The share that `5%` or `0.05` means, whatever its size. Raises ValueError for what is no number."""
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def is_misread(value: object, default: object) -> bool:
    """Whether it is true or false where something else belongs."""
    # pydantic would take true for the number 1
    return isinstance(value, bool) and (default is None or (isinstance(default, int | float) and not isinstance(default, bool)))


def has_unit(value: object) -> bool:
    """Whether it begins as a number does and goes on as none, as in 10m0s or 8Gi."""
    return isinstance(value, str) and re.match(r"\d+(\.\d+)?\s*[A-Za-z%]", value) is not None


def read(name: str, value: object, defaults: Defaults) -> object:
    """What a setting's type is given for `value`. Only texts of lists and empty texts change. Raises BadInput."""
    if not isinstance(value, str) or name not in defaults:
        return value
    default = defaults[name]
    if isinstance(default, tuple | list):
        return _entries(name, value)
    return None if not value and default is None else value


def _list(entries: list[object]) -> str:
    # a list in JSON where an entry would not come back from between commas
    if not all(isinstance(entry, str) and entry and entry == entry.strip() and "," not in entry for entry in entries):
        return json.dumps(entries, default=_plain)
    text = ",".join(map(str, entries))
    # a text that begins like a JSON list would be read as one
    return json.dumps(entries) if text.startswith("[") else text


def _plain(entry: object) -> object:
    return entry.model_dump(mode="json") if isinstance(entry, BaseModel) else str(entry)


def _entries(name: str, text: str) -> object:
    if not text.lstrip().startswith("["):
        return tuple(filter(None, (entry.strip() for entry in text.split(","))))
    try:
        return tuple(json.loads(text))
    except ValueError:
        why = "which begins like a JSON list and is none"
        raise BadInput(f'{name} is \'{text}\', {why}: write shop,web or ["shop", "web"]') from None


def is_of_namespaces(patterns: Sequence[str], namespace: str) -> bool:
    """Whether a namespace is one of those that `--namespace` names, also by patterns such as `shop-*`; all are without any."""
    return not patterns or any(fnmatchcase(namespace, pattern) for pattern in patterns)
