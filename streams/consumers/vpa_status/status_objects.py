"""The VPA objects as their API holds them: remembered, read when that may be wrong, and written only to say something new.

An object is looked at before its first write, and again after a conflict. One of another uid than the log knows is left alone
until the log knows it, and so is one that names another recommender, whatever the log says. Threads may settle different
objects at one time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged
from streams.clients.kube.vpa_status_client import Conflict, VpaStatus, VpaStatusObject, same
from streams.consumers.executing.rate_limit import RateLimit
from streams.consumers.vpa_status.conditions import Judging
from streams.consumers.vpa_status.projection import Order
from streams.errors import EdgeError

_TRIES = 5
"""How often an object is read anew because somebody else is writing, before others have their turn."""


@dataclass(frozen=True, slots=True)
class Written:
    """A write that the API took: the status, and the version of the object since then."""

    status: VpaStatus
    version: str


class Holder(Protocol):
    """Who holds the objects: as `streams.clients.kube.vpa_status_client`."""

    def read(self, namespace: str, name: str) -> VpaStatusObject | None:
        """The object; None when there is none."""

    def write(self, read: VpaStatusObject, status: VpaStatus) -> VpaStatusObject | None:
        """The object with this status; None when it is gone. Raises Conflict."""


class Objects:
    """`recommender` is the name under which we serve."""

    def __init__(self, vpas: Holder, pace: RateLimit, judging: Judging, recommender: str = DEFAULT_RECOMMENDER) -> None:
        self._vpas, self._pace, self._judging, self._recommender = vpas, pace, judging, recommender
        self._held: dict[tuple[str, str], VpaStatusObject] = {}

    def remember(self, found: Sequence[VpaStatusObject]) -> None:
        """These objects were listed."""
        self._held = {(each.metadata.namespace, each.metadata.name): each for each in found}

    def told(self, vpa: VpaChanged) -> None:
        """The log tells of a version of an object: if it is not the one that is remembered, somebody else has written."""
        held = self._held.get((vpa.namespace, vpa.name))
        if held is not None and vpa.resource_version not in ("", held.metadata.resource_version):
            del self._held[vpa.namespace, vpa.name]

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        self._held.pop((namespace, name), None)

    def settle(self, order: Order, at: datetime) -> Written | None:
        """Let the object say what it should; None when there was nothing to write. Raises TryAgain and GiveUp."""
        name = order.vpa.namespace, order.vpa.name
        conflict: EdgeError | None = None
        for _ in range(_TRIES):
            held = self._current(order.vpa)
            if held is None or not self._ours(held, order.vpa):
                return None
            wanted = self._judging.status(order.vpa, order.known, held.status, at)
            if same(held.status, wanted):
                return None
            self._pace.wait()
            self._held.pop(name, None)
            try:
                now = self._vpas.write(held, wanted)
            except Conflict as error:
                conflict = error
                continue
            if now is None:
                return None
            self._held[name] = now
            return Written(wanted, now.metadata.resource_version)
        raise conflict or AssertionError("there is a conflict after each try")

    def _current(self, vpa: VpaChanged) -> VpaStatusObject | None:
        """The object as remembered, if that is of the spec that the log tells of; else as it is."""
        held = self._held.get((vpa.namespace, vpa.name))
        if held is None or vpa.uid not in ("", held.metadata.uid) or vpa.generation != held.metadata.generation:
            self._pace.wait()
            held = self._vpas.read(vpa.namespace, vpa.name)
            if held is None:
                self.forget(vpa.namespace, vpa.name)
            else:
                self._held[vpa.namespace, vpa.name] = held
        return held

    def _ours(self, held: VpaStatusObject, vpa: VpaChanged) -> bool:
        """Whether it is the object that the log tells of, and ours to write."""
        names = [named.name for named in held.spec.recommenders] or [DEFAULT_RECOMMENDER]
        return self._recommender in names and vpa.uid in ("", held.metadata.uid)
