"""Which clients may ask: API servers that forward requests, by their client certificate (the aggregation layer's front proxy).

The API server has authenticated and authorized the user, and names the user in headers. The certificate's authority, its names
and those headers are in the ConfigMap `extension-apiserver-authentication` of the namespace `kube-system`, where every cluster
keeps them for servers such as ours. All other clients are refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from streams.clients.kube.json_objects import ObjectStore
from streams.errors import BadInput

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"


@dataclass(frozen=True, slots=True)
class FrontProxyTrust:
    """Which front proxies to trust: `authorities` (PEM), a certificate's `names` (none means any), the headers of user names."""

    authorities: bytes
    names: tuple[str, ...]
    user_headers: tuple[str, ...]


def read_trust(objects: ObjectStore) -> FrontProxyTrust:
    """Read it from the cluster. Raises TryAgain, GiveUp, and BadInput if the cluster has no aggregation layer."""
    config_map = objects.find(NAME)
    data = {} if config_map is None else config_map.get("data") or {}
    authorities = str(data.get("requestheader-client-ca-file") or "")
    if not authorities.strip():
        raise BadInput(f"ConfigMap 'kube-system/{NAME}' names no 'requestheader-client-ca-file': is the aggregation layer on?")
    return FrontProxyTrust(
        authorities.encode(),
        _names(data, "requestheader-allowed-names"),
        _names(data, "requestheader-username-headers") or ("X-Remote-User",),
    )


def user_of(trust: FrontProxyTrust, certificate: Mapping[str, Any] | None, headers: Mapping[str, str]) -> str | None:
    """The user on whose behalf a front proxy asks; None if the client is no front proxy.

    `certificate` is what TLS verified, as Python decodes it.
    """
    if not certificate:
        return None
    if trust.names and not set(trust.names).intersection(_common_names(certificate)):
        return None
    return next((headers[name] for name in trust.user_headers if headers.get(name)), None)


def _common_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    return (value for part in certificate.get("subject", ()) for name, value in part if name == "commonName")


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    try:
        names = orjson.loads(data.get(key) or "[]")
    except ValueError:
        raise BadInput(f"ConfigMap 'kube-system/{NAME}' says '{data.get(key)}' for '{key}', which is no list") from None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()
