"""The Leases of a process, by the settings: the one by which one of several instances works, and the webhook's.

A polling source uses `Turns`: the instance that holds the Lease works, and one that loses it ends.
"""

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from agents.settings import cluster_factory
from agents.settings.all_settings import Settings
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import PlainObjects
from streams.consumers.executing.holder_lease import HolderLease, leases
from streams.sources.kube.watch_threads import LeaseLost

_TIMEOUT = Seconds(2.0)
"""Seconds to wait for an answer about a Lease; longer than that would cost the Lease itself."""


def holder_lease(process: str, settings: Settings) -> HolderLease | None:
    """The Lease of this consumer or source; None when the settings name no namespace for it."""
    namespace = cluster_factory.lease_namespace(settings.cluster)
    if namespace is None:
        return None
    api = Api(cluster_factory.connection(settings.cluster), timeout=_TIMEOUT)
    # in a container every process has the number 1, so a part of chance tells a restart from the process before it
    identity = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    return HolderLease(leases(api, namespace), f"ullage-{process}", identity)


def webhook_leases(settings: Settings, api: Api) -> PlainObjects:
    """The Leases among which the webhook's is."""
    namespace = settings.webhook.lease_namespace or settings.webhook.namespace
    return leases(api, namespace)


def real_time() -> datetime:
    """The present time, which certificates and Leases go by."""
    return datetime.now(UTC)  # noqa: TID251  # certificates and Leases go by real time


class Turns:
    """The turns of one instance of the source `name`; without a Lease it always works."""

    def __init__(self, name: str, lease: HolderLease | None) -> None:
        self._name, self._lease, self._worked = name, lease, False

    @property
    def stands_by(self) -> bool:
        """Whether another instance was seen to hold the Lease."""
        return self._lease is not None and self._lease.elsewhere

    def at_work(self) -> bool:
        """Whether it is this instance's turn. Raises LeaseLost when it was, and is no longer."""
        has_lease = self._lease is None or self._lease.held
        # its memory of the log is stale by now; started again, it stands by
        if self._worked and not has_lease:
            raise LeaseLost(f"another instance holds the Lease of the {self._name} source now, so this one ends")
        self._worked = has_lease
        return has_lease

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep the Lease while the block runs, then give it back."""
        if self._lease is None:
            yield
        else:
            with self._lease.renewed(self._name):
                yield
