"""What `kubectl describe` shows of an EHPA: what was made for it, and what failed, by upstream's reasons.

Nothing depends on an event. Source of the reasons: pkg/controller/ehpa of Crane.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from schemas.decision_subjects import Subject
from schemas.outcomes import ObjectChange
from schemas.times import to_seconds
from streams.clients.kube.event_recorder import ObjectEvent, RecordEvent, try_to_record
from streams.consumers.replicas.pass_order import PassOrder, PassReport
from streams.errors import EdgeError, Unreachable

_CREATED = {
    "HorizontalPodAutoscaler": "HPACreated",
    "TimeSeriesPrediction": "PredictionCreated",
    "Substitute": "SubstituteCreated",
}


@dataclass(frozen=True, slots=True)
class _FailureReasons:
    """The reasons for an object that could not be read, made up, created, or changed."""

    get: str
    make: str
    create: str
    update: str


_RECONCILING = {
    "FailedReconcileHPA": _FailureReasons("FailedGetHPA", "FailedCreateHPAObject", "FailedCreateHPA", "FailedUpdateHPA"),
    "FailedReconcilePrediction": _FailureReasons(
        "FailedGetPrediction", "FailedCreatePredictionObject", "FailedCreatePrediction", "FailedUpdatePrediction"
    ),
    "FailedReconcileSubstitute": _FailureReasons(
        "FailedGetSubstitute", "FailedCreateSubstituteObject", "FailedCreateSubstitute", "FailedUpdateSubstitute"
    ),
}
"""By the condition's reason."""
_OTHERS = {
    "FailedGetScale": "FailedGetScale",
    "FailedScale": "FailedManualScale",
    "FailedUpdateStatus": "FailedUpdateStatus",
}
_HOUR = 3600.0  # a failure that lasts is said again when the API server has forgotten its event (--event-ttl is an hour)


class EhpaEvents:
    """The events of all EHPAs of one cluster. Threads may share it as long as each EHPA has only one pass at a time."""

    def __init__(self, record: RecordEvent) -> None:
        self._record = record
        self._failures: dict[tuple[str, str], str] = {}
        """The cause of the last failure that was told, by the EHPA's namespace and name."""

    def forget(self, order: PassOrder) -> None:
        """The EHPA is gone."""
        self._failures.pop((order.namespace, order.name), None)

    @contextmanager
    def told(self, order: PassOrder, report: PassReport) -> Iterator[None]:
        """Write the events of the pass inside, whether or not it ends well."""
        try:
            yield
        except EdgeError as error:
            if not isinstance(error, Unreachable):  # each event would run into a time-out of its own
                self._tell(order, report)
            raise
        self._tell(order, report)

    def _tell(self, order: PassOrder, report: PassReport) -> None:
        subject = Subject.of_object("", "EffectiveHorizontalPodAutoscaler", order.namespace, order.name, report.uid)
        for write in report.writes:
            if write.change is ObjectChange.CREATED and not write.fault:
                message = f"{write.kind} {write.name} was created: {write.reason}"
                cause = f"{report.uid}/{write.kind}/{write.version}"
                try_to_record(self._record, ObjectEvent(subject, _CREATED[write.kind], message, cause))
        key, reason = (order.namespace, order.name), _reason(report)
        if not reason:
            self._failures.pop(key, None)
            return
        cause = f"{report.uid}/{report.failure}/{int(to_seconds(order.at) // _HOUR)}"
        if self._failures.get(key) != cause:
            self._failures[key] = cause
            try_to_record(self._record, ObjectEvent(subject, reason, report.failure, cause, warning=True))


def _reason(report: PassReport) -> str:
    """Upstream's reason for the step that failed; empty where none did, or where upstream has no such step."""
    reasons = _RECONCILING.get(report.step)
    if reasons is None:
        return _OTHERS.get(report.step, "")
    if report.doing.startswith("making"):
        return reasons.make
    if report.doing.startswith("reading"):
        return reasons.get
    failed = next((write.change for write in report.writes if write.fault), None)
    return reasons.create if failed is ObjectChange.CREATED else reasons.update
