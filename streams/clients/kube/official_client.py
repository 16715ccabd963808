"""Kubernetes' own client, loaded without what it loads and nobody here calls: 5 MiB of each process.

Whoever needs the client takes it from here; what only reads objects does not load it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def _session(*given: Any, **options: Any) -> Any:
    """A session of `requests_oauthlib`, by which a kubeconfig's expired OIDC token is renewed; loaded when one is."""
    return import_module("requests_oauthlib").OAuth2Session(*given, **options)


_UNUSED = [ModuleType(f"kubernetes.{part}") for part in ("dynamic", "watch", "stream", "leaderelection", "informer")]
_LATER = ModuleType("requests_oauthlib")
_LATER.__dict__["OAuth2Session"] = _session
for _module in (*_UNUSED, _LATER):
    sys.modules.setdefault(_module.__name__, _module)
from kubernetes import client, config  # noqa: E402  # the stubs stand in for what it would load

for _module in (*_UNUSED, _LATER):
    if sys.modules.get(_module.__name__) is _module:
        del sys.modules[_module.__name__]

__all__ = ["client", "config"]
