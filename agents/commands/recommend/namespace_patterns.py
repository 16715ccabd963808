"""Which namespaces a command's `--namespace` means: names, or patterns such as `shop-*`."""

from collections.abc import Sequence
from fnmatch import fnmatchcase


def takes(patterns: Sequence[str], namespace: str) -> bool:
    """Whether a namespace is one of those; all are where no pattern is given."""
    return not patterns or any(fnmatchcase(namespace, pattern) for pattern in patterns)
