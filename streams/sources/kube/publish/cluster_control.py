"""Mirrors the object that commands a cluster, ClusterControl `ullage`, into the log, and says in its status what became of it.

While the object exists it is the authority: what it says is published as what `ullage mode` publishes, with the object's name,
and that command refuses. What somebody else wrote meanwhile is undone within a minute. A spec that cannot be obeyed changes
nothing. When the object is gone, what it said last stays in force, and the command may change it again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from schemas import event_bounds
from schemas.names import Place
from schemas.policies.control import ControlChanged, ControlSchedule, Mode, refusals
from schemas.units import Fraction
from streams.clients.kube import commanding_objects
from streams.clients.kube.commanding_objects import CONTROL_KIND, ControlObject, ScheduleSpec
from streams.clients.kube.json_objects import Json
from streams.clients.kube.watched_objects import KubeObject
from streams.errors import BadInput, EdgeError, LogUnavailable
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish import policy_fields
from streams.sources.kube.publish.policy_fields import member
from streams.sources.kube.publish.publisher import SubjectPublisher, signed
from streams.sources.kube.publish.status_writes import Answer, StatusWrites
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread
from streams.sources.kube.watch.watched_resources import CONTROLS

NAME = "ullage"  # the only one that counts, so that two objects cannot contradict each other
_GONE = f"{CONTROL_KIND}/{NAME} is gone, and what it said last stays in force"
"""Stands in the log after the object's own reason, for `why` and `status`."""
RETRY = timedelta(seconds=10)
"""How long to wait after the log or the API server refused."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlDoor:
    """`write_status` writes an object's status; `why_open` says why anybody may command through the log, None if nobody may."""

    write_status: Callable[[ControlObject, Json], None]
    why_open: Callable[[], str | None]


class ClusterControlPublisher(SubjectPublisher):
    """The ClusterControl of a cluster."""

    # It appends by itself and not by the outbox, because the status has to say where in the log a change stands.

    def __init__(self, context: LogContext, door: ControlDoor) -> None:
        self._cluster, self._operator, self._door = context.cluster, OperatorLog(context), door
        self._statuses = StatusWrites(CONTROL_KIND, door.write_status)
        self._partition = context.cluster_partition("control")[1]
        self._objects: dict[str, ControlObject] = {}
        self._unread: set[str] = set()
        self._due: set[str] = set()
        self._last: ControlChanged | None = None
        self._mirrored: ControlChanged | None = None
        """The last record that says what the object says."""
        # Where in the log this process put what is in force: it is not put there again because its status cannot be written.
        self._place: Place | None = None
        self._listed = False
        self._retry: datetime | None = None

    def restore(self, _published: PublishedState, _at: datetime) -> None:
        """As SubjectPublisher."""
        self._last, self._place = self._operator.control(self._cluster), None
        self._mirrored = self._last if self._last is not None and self._last.through else None
        self._due.update(self._objects)

    def seen(self, _kind: str, item: KubeObject, _at: datetime) -> None:
        """As SubjectPublisher."""
        if isinstance(item, ControlObject):
            self._objects[item.metadata.name] = item
            self._unread.discard(item.metadata.name)
            self._due.add(item.metadata.name)

    def gone(self, gone: ObjectGone, _at: datetime) -> None:
        """As SubjectPublisher."""
        if gone.kind == CONTROLS.name:
            self._objects.pop(gone.name, None)
            self._unread.discard(gone.name)
            self._due.discard(gone.name)
            self._statuses.forget(gone)

    def unread(self, unread: ObjectUnread) -> None:
        """What it said stays in force, and commands that it refuses stay refused."""
        if unread.kind == CONTROLS.name:
            self._unread.add(unread.name)

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """As SubjectPublisher."""
        self._listed = self._listed or kind == CONTROLS.name

    def publish_due(self, at: datetime) -> None:
        """Obey what has changed. While the log or the API server is away, it is tried again every ten seconds."""
        if self._retry is not None and at < self._retry:
            return
        self._retry = None
        try:
            missing = NAME not in self._objects and NAME not in self._unread
            if self._listed and missing and self._last is not None and self._last.through:
                reason = "; ".join(filter(None, (self._last.reason, _GONE)))
                self._publish(replace(self._last, at=at, through="", reason=reason))
            for name in sorted(self._due):
                self._obey(self._objects[name], at)
                self._due.discard(name)
        except (LogUnavailable, EdgeError) as error:
            self._retry = at + RETRY
            _log.warning("the object that commands the cluster waits", object=f"{CONTROL_KIND}/{NAME}", error=str(error))

    def republish(self, at: datetime, older: timedelta) -> None:  # noqa: ARG002  # the protocol's
        """Undo what others wrote while the object exists."""
        # `ullage mode` refuses then, but it may have read the log before the object was there.
        if self._objects and self._retry is None:
            try:
                self._last = self._operator.control(self._cluster)
            except LogUnavailable:
                return  # the process says so, and the next minute tries again
            self._due.update(self._objects)

    def _obey(self, control: ControlObject, at: datetime) -> None:
        generation, applied = control.metadata.generation, commanding_objects.applied(control)
        shown = applied.observed_generation, applied.status == "True", applied.message
        try:
            wanted = signed(self._wanted(control, at), self._mirrored)
        except (ValueError, BadInput) as fault:
            self._answer(control, shown, (generation, False, str(fault)[:1000]), at)
            return
        same = self._last is not None and replace(self._last, at=at, by=wanted.by) == wanted
        if same and shown[:2] == (generation, True):
            return
        place = self._place if same and self._place is not None else self._publish(wanted)
        self._answer(control, shown, (generation, True, f"in force from {place.topic}:{place.partition}:{place.offset} on"), at)

    def _answer(self, control: ControlObject, shown: Answer, answer: Answer, at: datetime) -> None:
        """Say in the status what became of the object, unless it says so."""
        if shown != answer:
            self._statuses.write(control, answer, at)

    def _wanted(self, item: ControlObject, at: datetime) -> ControlChanged:
        """What the object asks for. Raises ValueError, and BadInput, with why it cannot be obeyed."""
        meta, spec = item.metadata, commanding_objects.decode_control(item.spec)
        if meta.name != NAME:
            raise ValueError(f"only the {CONTROL_KIND} with the name '{NAME}' is obeyed, and this is '{meta.name}'")
        if not 0 <= spec.budget <= 1:
            raise ValueError(f"spec.budget is {spec.budget}; it is a share of the pods, from 0 to 1")
        control = ControlChanged(
            at=at,
            cluster=self._cluster,
            mode=member("spec.mode", spec.mode, Mode),
            paused=spec.paused,
            reason=spec.reason,
            budget=Fraction(spec.budget),
            by=policy_fields.author(meta),
            through=f"{CONTROL_KIND}/{NAME}",
            schedules=tuple(_schedule(entry, f"spec.schedules[{i}]") for i, entry in enumerate(spec.schedules)),
        )
        fault = event_bounds.fault(control)
        if fault is not None:
            raise ValueError(f"the object is too large: {' '.join(fault).lstrip('.')}")
        if (odd := next(refusals(control), None)) is not None:
            raise ValueError(f"spec.{odd}")
        why = self._door.why_open() if control.may_apply and not spec.on_an_open_log else None
        if why is not None:
            raise ValueError(f"mode apply obeys whoever can write into the log. {why}. Give it logins, or say spec.onAnOpenLog")
        return control

    def _publish(self, control: ControlChanged) -> Place:
        """Raises LogUnavailable, also when the log will not take the record."""
        places = self._operator.publish(control)
        place = next((place for place in places if place is not None and place.partition == self._partition), None)
        if place is None:
            raise LogUnavailable(f"the log did not take the control of cluster '{self._cluster}'")
        self._last, self._place = control, place
        if control.through:
            self._mirrored = control
        return place


def _schedule(spec: ScheduleSpec, where: str) -> ControlSchedule:
    """One entry. Raises ValueError for a mode that there is not; the rest is looked at with the whole record."""
    return ControlSchedule(
        spec.begins,
        spec.minutes,
        spec.time_zone,
        None if spec.mode is None else member(f"{where}.mode", spec.mode, Mode),
        None if spec.budget is None else Fraction(spec.budget),
        spec.paused,
        spec.reason,
    )
