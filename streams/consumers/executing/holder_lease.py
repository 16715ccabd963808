"""The Lease that lets one of several instances of a consumer act, while the others stand by.

Time is each instance's own monotonic clock, so that clocks that disagree or jump do no harm. After a crash another instance takes
over within `DURATION`, a round of renewals and a request. A holder that freezes between its last check (see `ActPermit`) and its
request does no harm either, because the pod's uid and version are conditions of the request.
"""
# The official client's leader election goes by the wall clock, and can neither be stopped nor give the Lease back.

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import structlog

from schemas.bounds import MOST_INT32
from schemas.units import Seconds
from streams import answer_bounds
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import Json, ObjectStore, PlainObjects
from streams.errors import GiveUp, TryAgain

API_VERSION = "coordination.k8s.io/v1"


def leases(api: Api, namespace: str) -> PlainObjects:
    """The Leases of a namespace. Raises GiveUp for what can be no namespace."""
    return PlainObjects(api, api_paths.scoped(api_paths.root(API_VERSION), namespace, "leases"), "Lease")


def new_lease(name: str, spec: Json, annotations: Mapping[str, str] | None = None) -> Json:
    """The body of a Lease that is to be created."""
    metadata: Json = {"name": name} if annotations is None else {"name": name, "annotations": dict(annotations)}
    return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}


def micro_time(at: datetime) -> str:
    """A time in UTC as Kubernetes spells a MicroTime."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def was_faster(error: TryAgain) -> bool:
    """Whether a write did not work because somebody else had written since the object was read."""
    return error.answer.startswith("409")


DURATION = Seconds(10.0)
"""After so long without a renewal another instance takes the Lease."""
# The holder may act for so long after the beginning of a renewal: shorter than `DURATION`, so that never two may.
HELD = Seconds(7.0)
ROUND = Seconds(2.0)
"""Seconds between two renewals, or two looks at somebody else's Lease."""
_LAST_WORDS = 5.0
"""Seconds to give the Lease back."""
_log = structlog.get_logger(__name__)


class HolderLease:
    """The Lease `name` among `objects`; `identity` tells this instance from the others. One thread renews, any may ask."""

    def __init__(self, objects: ObjectStore, name: str, identity: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._objects, self._name, self._identity, self._clock = objects, name, identity, clock
        self._held_until = float("-inf")
        self._seen: tuple[object, ...] | None = None
        self._seen_at = 0.0
        self._logged = ""
        self.elsewhere = False
        """Whether another instance was seen to hold it when it was last looked at."""

    @property
    def held(self) -> bool:
        """Whether this instance may act now."""
        return self._clock() < self._held_until

    def renew(self) -> bool:
        """Take the Lease or renew it if it is free or ours; whether it is held now. Raises TryAgain and GiveUp."""
        begun = self._clock()  # before the request: its answer may take long, and others count from when they see the write
        lease = self._objects.find(self._name)
        spec = {} if lease is None else lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        renewal = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if renewal != self._seen:
            self._seen, self._seen_at = renewal, begun
        # How long it is unchanged to us counts, not its `renewTime`, which is by the clock of another machine.
        if holder not in ("", self._identity) and begun - self._seen_at < DURATION:
            self._held_until, self.elsewhere = float("-inf"), True
            return False
        self.elsewhere = False
        if not self._write(lease, spec, holder):
            self._held_until = float("-inf")
            return False
        self._held_until = begun + HELD
        return True

    def release(self) -> None:
        """Give the Lease back, so that another instance need not wait. Raises TryAgain and GiveUp."""
        self._held_until = float("-inf")
        lease = self._objects.find(self._name)
        if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self._identity:
            self._objects.replace(self._name, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})

    def keep(self, stop: threading.Event) -> None:
        """Renew, or wait for the Lease, until `stop` is set; then give it back. What fails is tried again in the next round."""
        while not stop.is_set():
            try:
                held = self.renew()
            except (TryAgain, GiveUp) as error:
                self._log_change("the Lease cannot be renewed", str(error))
            else:
                self._log_change("holds the Lease, acts" if held else "another instance holds the Lease, stands by", "")
            stop.wait(ROUND)
        try:
            self.release()
        except (TryAgain, GiveUp) as error:
            self._log_change("the Lease could not be given back", str(error))

    @contextmanager
    def renewed(self, name: str) -> Iterator[None]:
        """Keep the Lease in a thread while the block runs, then give it back. `name` says whose it is."""
        ended = threading.Event()
        keeper = threading.Thread(target=self.keep, args=(ended,), name=f"{name} lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join(_LAST_WORDS)

    def _write(self, lease: Json | None, spec: Json, holder: str) -> bool:
        """Write our name into it; False when another instance was faster."""
        at = micro_time(datetime.now(UTC))  # noqa: TID251  # shown to people; nothing compares it
        ours = {**spec, "holderIdentity": self._identity, "leaseDurationSeconds": int(DURATION), "renewTime": at}
        if holder != self._identity:
            changes = answer_bounds.count(spec.get("leaseTransitions"), MOST_INT32 - 1)
            ours |= {"acquireTime": at, "leaseTransitions": changes + (lease is not None)}
        try:
            if lease is None:
                self._objects.create(self._name, new_lease(self._name, ours))
            else:
                self._objects.replace(self._name, {**lease, "spec": ours})
        except TryAgain as error:
            if not was_faster(error):
                raise
            return False
        return True

    def _log_change(self, what: str, error: str) -> None:
        """One line for each change."""
        if self._logged != what + error:
            self._logged = what + error
            about = {"lease": self._name, "identity": self._identity}
            if error:
                _log.warning(what, **about, error=error)
            else:
                _log.info(what, **about)
