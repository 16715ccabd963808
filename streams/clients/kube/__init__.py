"""A Kubernetes API server as a client sees it: requests, lists and watches, and how the objects in its answers are read.

Kubernetes' own client is loaded here, without what it loads and nobody here calls: 5 MiB of each process.
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
import_module("kubernetes")
for _module in (*_UNUSED, _LATER):
    if sys.modules.get(_module.__name__) is _module:
        del sys.modules[_module.__name__]
