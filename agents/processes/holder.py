"""The Lease by which one of several instances of a process is at work, by the settings."""

import os
import socket
import uuid

from agents.settings import cluster_factory
from agents.settings.tree import Settings
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.leases import leases
from streams.consumers.executing.holder_lease import HolderLease

_TIMEOUT = Seconds(2.0)
"""Seconds to wait for an answer about a Lease; longer than that would cost the Lease itself."""


def holder_lease(process: str, settings: Settings) -> HolderLease | None:
    """The Lease of this consumer or source; None when the settings name no namespace for it."""
    namespace = cluster_factory.lease_namespace(settings.cluster)
    if namespace is None:
        return None
    api = Api(cluster_factory.connection(settings.cluster), timeout=_TIMEOUT)
    identity = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    return HolderLease(leases(api, namespace), f"ullage-{process}", identity)
