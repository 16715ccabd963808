"""Paths of the Kubernetes API, built from names that are validated before they go in.

Each part must satisfy Kubernetes' own rule for its kind, and is quoted.
"""

import re
from urllib.parse import quote

from streams.errors import GiveUp

# A tenant wrote these names. One such as `../api/v1/pods?watch=1` would make another request than was meant, by our rights.
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
# Kubernetes' loosest rule (IsValidPathSegmentName): names of roles may have colons and capitals.
_NAME = re.compile(r"[^/%\x00-\x1f\x7f]{1,253}")
_SHOWN = 80


def root(api_version: str) -> str:
    """The path of a group's version (`apps/v1`), or of a version of the core (`v1`). Raises GiveUp."""
    group, slash, version = api_version.rpartition("/")
    if not _LABEL.fullmatch(version) or (slash and not _SUBDOMAIN.fullmatch(group)):
        raise _refused(api_version, "apiVersion")
    return f"/apis/{quote(group, safe='')}/{version}" if slash else f"/api/{version}"


def group_root(group: str) -> str:
    """The path of a group, where its versions are listed. Raises GiveUp."""
    if not _SUBDOMAIN.fullmatch(group):
        raise _refused(group, "API group")
    return f"/apis/{quote(group, safe='')}"


def scoped(start: str, namespace: str, plural: str, name: str = "", subresource: str = "") -> str:
    """The path of the objects of a kind in a namespace, of one of them, or of a part of it, under `start`. Raises GiveUp."""
    if not _LABEL.fullmatch(namespace):
        raise _refused(namespace, "namespace")
    if not _LABEL.fullmatch(plural):
        raise _refused(plural, "kind in a path")
    path = f"{start}/namespaces/{namespace}/{plural}"
    if not name:
        return path
    # Quoting leaves dots as they are, and whatever resolves them on the way makes another path of it.
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise _refused(name, "name of an object")
    return f"{path}/{quote(name, safe='')}" + (f"/{subresource}" if subresource else "")


def unscoped(start: str, plural: str, name: str) -> str:
    """The path of one object of a kind that belongs to no namespace, under `start`. Raises GiveUp."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise _refused(name, "name of an object")
    return f"{start}/{plural}/{quote(name, safe='')}"


def check_kind(kind: str) -> None:
    """Raises GiveUp for text that cannot be a kind."""
    if not _KIND.fullmatch(kind):
        raise _refused(kind, "kind")


def _refused(text: str, what: str) -> GiveUp:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return GiveUp(doing="asking the API server for", to=shown, answer=f"this is no {what} that Kubernetes would take")
