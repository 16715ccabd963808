"""Writes the status of VPA objects: it caches the objects, reads them again when they may have changed, and only writes changes.

An object is looked at before its first write, and again after a conflict. One of another uid than was decided about is left
alone, and so is one that names another recommender, whatever the log says. Threads may write different objects at the same
time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from schemas.decisions.vpa_conditions import VpaConditionsDecided
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged
from streams.clients.kube.vpa_status_client import Conflict, VpaStatus, VpaStatusObject, same
from streams.consumers.executing.rate_limit import RateLimit
from streams.consumers.vpa_status.desired_status import desired_status
from streams.errors import EdgeError

_TRIES = 5
"""How often an object is read again because somebody else is writing, before others have their turn."""


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """A write that the API took: the status, and the version of the object since then."""

    status: VpaStatus
    version: str


class StatusApi(Protocol):
    """A client that reads and writes the objects: an API server's, or a fake."""

    def read(self, namespace: str, name: str) -> VpaStatusObject | None:
        """The object; None when there is none."""

    def write(self, read: VpaStatusObject, status: VpaStatus) -> VpaStatusObject | None:
        """The object with this status; None when it is gone. Raises Conflict."""


class StatusWriter:
    """`recommender` is the name under which we serve; `humanize` as in `desired_status`."""

    def __init__(
        self, api: StatusApi, limit: RateLimit, recommender: str = DEFAULT_RECOMMENDER, *, humanize: bool = False
    ) -> None:
        self._api, self._limit, self._recommender, self._humanize = api, limit, recommender, humanize
        self._objects: dict[tuple[str, str], VpaStatusObject] = {}

    def remember(self, listed: Iterable[VpaStatusObject]) -> None:
        """These are all objects, as they were listed."""
        self._objects = {(each.metadata.namespace, each.metadata.name): each for each in listed}

    def observe(self, vpa: VpaChanged) -> None:
        """The log has a version of an object; if it is not the cached one, somebody else has written it."""
        known = self._objects.get((vpa.namespace, vpa.name))
        if known is not None and vpa.resource_version not in ("", known.metadata.resource_version):
            del self._objects[vpa.namespace, vpa.name]

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        self._objects.pop((namespace, name), None)

    def write(self, decision: VpaConditionsDecided) -> WrittenStatus | None:
        """Make the object show what was decided; None when there was nothing to write. Raises TryAgain and GiveUp."""
        name = decision.namespace, decision.name
        conflict: EdgeError | None = None
        for _ in range(_TRIES):
            known = self._current(decision)
            if known is None or not self._ours(known, decision):
                return None
            wanted = desired_status(decision, known.status, humanize=self._humanize)
            if same(known.status, wanted):
                return None
            self._limit.wait()
            self._objects.pop(name, None)
            try:
                now = self._api.write(known, wanted)
            except Conflict as error:
                conflict = error
                continue
            if now is None:
                return None
            self._objects[name] = now
            return WrittenStatus(wanted, now.metadata.resource_version)
        raise conflict or AssertionError("there is a conflict after each try")

    def _current(self, decision: VpaConditionsDecided) -> VpaStatusObject | None:
        """The cached object, if it has the spec that was decided about; else it is read again."""
        name = decision.namespace, decision.name
        known = self._objects.get(name)
        if known is None or decision.uid not in ("", known.metadata.uid) or decision.generation != known.metadata.generation:
            self._limit.wait()
            known = self._api.read(*name)
            if known is None:
                self.forget(*name)
            else:
                self._objects[name] = known
        return known

    def _ours(self, known: VpaStatusObject, decision: VpaConditionsDecided) -> bool:
        """Whether it is the object that was decided about, and ours to write."""
        names = [recommender.name for recommender in known.spec.recommenders] or [DEFAULT_RECOMMENDER]
        return self._recommender in names and decision.uid in ("", known.metadata.uid)
