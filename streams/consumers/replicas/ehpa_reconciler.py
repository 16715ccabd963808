"""One pass over one EHPA: look at it and all its objects, correct whatever differs from the desired state, and report it.

A pass reads everything from the API server, so it does not matter what was done before, by whom, and how often a pass starts
over. It never touches an object that has the expected name but another owner. While changes are not allowed, it writes only the
status, which gives the reason.
"""

from collections.abc import Mapping
from typing import Any

import structlog
import yaml

from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ScalingMode
from schemas.facts.replica_scaling import HpaCondition
from schemas.outcomes import ObjectChange, OutcomeDetail, Result
from schemas.times import from_ms, rfc3339, to_seconds
from schemas.well_known_labels import EHPA_UID, SCALING
from streams.clients.kube import json_objects
from streams.clients.kube.controllers import ControllerKey, FoundScale
from streams.clients.kube.event_recorder import RecordEvent, record_nothing
from streams.consumers.replicas import desired_objects, ehpa_status
from streams.consumers.replicas.desired_objects import ObjectGenerator
from streams.consumers.replicas.ehpa_status import EhpaEvents, EhpaFindings, NotReady
from streams.consumers.replicas.pass_objects import PassClients, PassMemory, PassObjects, ReplicaClients
from streams.consumers.replicas.pass_order import ObjectWrite, PassOrder, PassReport
from streams.contested_writes import DriftBook
from streams.errors import EdgeError, GiveUp, TryAgain, Unreachable

Json = dict[str, Any]
_log = structlog.get_logger(__name__)
CURRENT_METRICS = "autoscaling.crane.io/effective-hpa-current-metrics"
"""The annotation that shows the current values of an HPA's metrics."""
_LONGEST_METRICS = 100_000  # characters; all annotations of an object together may have 256 KiB
_STEPS = {
    "Substitute": "FailedReconcileSubstitute",
    "TimeSeriesPrediction": "FailedReconcilePrediction",
    "HorizontalPodAutoscaler": "FailedReconcileHPA",
}
"""The condition's reason where an object is not as it should be."""
_SEEN = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
"""Kinds whose scale is in the log, so that the forecaster can plan their replicas."""


class _Stop(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.not_ready = NotReady(reason, message)


class EhpaReconciler:
    """Runs passes over EHPAs. Threads may share it as long as each EHPA has only one pass at a time."""

    def __init__(self, clients: ReplicaClients, generator: ObjectGenerator, record: RecordEvent = record_nothing) -> None:
        self._clients, self._generator, self._events = clients, generator, EhpaEvents(record)
        self._memory = PassMemory()

    def run_pass(self, order: PassOrder) -> PassReport:
        """One pass. Raises TryAgain and GiveUp if it cannot read the EHPA or its target, or cannot write the status."""
        live = self._clients.ehpas.find(order.namespace, order.name)
        if live is None or live["metadata"].get("deletionTimestamp"):
            self._events.forget(order)
            for name in (order.name, f"ehpa-{order.name}"):
                self._memory.forget(order.namespace, name)
            return PassReport()
        clients = self._clients.for_pass(self._memory, live, order.at)
        work = _EhpaPass(clients, self._generator, order, live, self._memory.drifts)
        with self._events.told(order, work.report):
            work.run()
        return work.report

    def write_prediction(self, order: PassOrder) -> None:
        """Write the status of a TimeSeriesPrediction that belongs to no EHPA. Raises TryAgain and GiveUp."""
        live = self._clients.tsps.find(order.namespace, order.name)
        if live is None:
            self._memory.forget(order.namespace, order.name)
            return
        forecast = order.forecast
        fits = forecast is not None and not forecast.withdrawn and forecast.uid == live["metadata"]["uid"]
        tsps = self._clients.for_pass(self._memory, live, order.at).tsps
        ehpa_status.write_forecasts(tsps, self._generator, live, order, forecast if fits else None)


class _EhpaPass:
    def __init__(self, clients: PassClients, generator: ObjectGenerator, order: PassOrder, live: Json, drifts: DriftBook) -> None:
        self._clients, self._generator, self._order, self._live, self._drifts = clients, generator, order, live, drifts
        about = live["metadata"]
        self._uid, self._child = str(about["uid"]), f"ehpa-{about['name']}"
        self._spec: Json = live.get("spec") or {}
        self.report = PassReport(found=True, generation=int(about.get("generation") or 0), uid=self._uid)
        self._result = EhpaFindings()
        self._left_changed: _Stop | None = None
        """An object that somebody else keeps changing, and that this pass leaves so."""

    def run(self) -> None:
        """Run all steps. The first one that fails ends the pass, and the status reports it."""
        try:
            self._steps()
            if self._left_changed is not None:
                raise self._left_changed
        except _Stop as stop:
            self._result.not_ready = stop.not_ready
            self.report.failed(stop.not_ready.reason, stop.__cause__ or stop)
        before = self._live.get("status") or {}
        status = ehpa_status.desired_status(before, self._result, self._order.at)
        replacing = None if status == before else ehpa_status.replacing(status)
        try:
            self._clients.ehpas.show_status(self._live, replacing, ehpa_status.news(self._result, self._order.at))
        except EdgeError as error:
            self.report.failed("FailedUpdateStatus", error)
            raise

    def _steps(self) -> None:
        if self._order.unsupported and (self._order.rival or not self._is_direct):
            self._leave_as_it_is()
        if self._order.rival:
            if self._order.objection is None:  # of a workload that two HPAs name, Kubernetes scales it by neither
                self._try("FailedReconcileHPA", lambda: self._remove(self._clients.hpas))
            self._result.nothing = self._order.objection is None
            raise _Stop("TargetTaken", f"the older EHPA '{self._order.rival}' scales the same target")
        scale = self._scale()
        # Somebody put it there by hand, and Kubernetes' own HPA leaves such a target alone, too.
        if scale.replicas == 0 and self._spec.get("minReplicas") != 0:
            self._result.current = self._result.expected = 0
            self._result.scaling = ehpa_status.conditions_at_zero()
            raise _Stop("ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
        if self._order.objection is not None:
            self._look_only()
            if self._is_direct:
                self._show_replicas(scale)
            raise _Stop("ChangesNotAllowed", self._order.objection)
        preview, direct = self._spec.get("scaleStrategy") == "Preview", self._is_direct
        # A preview's HPA points at the Substitute, which must be there before it, and is removed only after it points elsewhere.
        if preview and not direct:
            self._try("FailedReconcileSubstitute", lambda: self._substitute(scale))
        self._try("FailedReconcilePrediction", self._prediction)
        self._try("FailedReconcileHPA", lambda: self._hpa(scale, direct=direct))
        if not preview or direct:
            self._try("FailedReconcileSubstitute", lambda: self._remove(self._clients.substitutes))
        self._show_metrics()
        if direct or (preview and self._spec.get("specificReplicas") is not None):
            self._scaling(scale, direct=direct)

    def _leave_as_it_is(self) -> None:
        """Nobody can carry the EHPA out, so it scales nothing: an HPA that follows from an earlier version of it goes on."""
        # Unless another EHPA names the target, too: of a workload that two HPAs name, Kubernetes scales it by neither.
        if self._order.contested and self._order.objection is None:
            self._try("FailedReconcileHPA", lambda: self._remove(self._clients.hpas))
        self._look_only()
        raise _Stop("Unsupported", self._order.unsupported)

    def _scaling(self, scale: FoundScale, *, direct: bool) -> None:
        """Report what the scaler does in place of an HPA, or why it cannot."""
        scaled = self._order.scaled
        self._result.current = scale.there
        if direct:
            self._show_replicas(scale)
        if scaled is not None and scaled.result is Result.DONE:
            self._result.scaled = scaled.at
        kind = str((self._spec.get("scaleTargetRef") or {}).get("kind") or "")
        if kind not in _SEEN:
            raise _Stop("FailedScale", f"without an HPA only {', '.join(_SEEN)} are scaled, and the target is a {kind}")
        refused = self._order.left_alone or ("" if scaled is None or scaled.result is Result.DONE else scaled.reason)
        if direct:
            refused = refused or self._order.unsupported or (self._forecast.refused if self._forecast is not None else "")
        if scaled is None and self._order.decided is None:
            refused = refused or self._failed_before
        if refused:
            raise _Stop("FailedScale", refused)

    def _show_replicas(self, scale: FoundScale) -> None:
        """Show what an HPA's status would."""
        decided = self._order.decided  # a preview expects what is planned, as nobody carries it out
        is_preview = isinstance(decided, ReplicasPlanned) and decided.carried_out_by is ScalingMode.PREVIEW
        self._result.current = scale.there
        self._result.expected = decided.replicas if isinstance(decided, ReplicasPlanned) and is_preview else scale.replicas
        if decided is not None:
            self._result.scaling = ehpa_status.direct_conditions(decided, self._order.scaled, self._order.objection)
        else:
            before = ehpa_status.scaling_conditions(self._live.get("status") or {})
            self._result.scaling = [HpaCondition(**condition) for condition in before]

    @property
    def _failed_before(self) -> str:
        """The message that the status has if the EHPA could not be scaled; empty otherwise."""
        ready = ehpa_status.ready_condition(self._live) or {}
        return str(ready.get("message") or "") if ready.get("reason") == "FailedScale" else ""

    @property
    def _is_direct(self) -> bool:
        return (self._live["metadata"].get("annotations") or {}).get(SCALING) == "direct"

    def _scale(self) -> FoundScale:
        ref = self._spec.get("scaleTargetRef") or {}
        kind, name, version = (str(ref.get(word) or "") for word in ("kind", "name", "apiVersion"))
        try:
            scale = self._clients.scales.find(ControllerKey(self._order.namespace, kind, name, version))
        except GiveUp as error:
            raise self._no_scale(str(error)) from error
        if scale is None:
            self._result.nothing = True
            raise self._no_scale(f"{kind} '{self._order.namespace}/{name}' has no scale, or does not exist")
        return scale

    def _no_scale(self, message: str) -> _Stop:
        self._result.scaling = ehpa_status.conditions_without_scale(message)
        return _Stop("FailedGetScale", message)

    def _look_only(self) -> None:
        """Read the existing objects for the status and change none."""
        hpa = self._clients.hpas.find(self._order.namespace, self._child)
        self._result.hpa = hpa if hpa is not None and self._is_ours(hpa) else None
        tsp = self._clients.tsps.find(self._order.namespace, self._child)
        self._result.prediction = ehpa_status.ready_condition(tsp) if tsp is not None and self._is_ours(tsp) else None

    def _try(self, reason: str, step: Any) -> None:
        """Run a step. If the API refuses it, or it is impossible, the pass ends with this reason."""
        try:
            step()
        except EdgeError as error:
            # Neither says anything of the EHPA: nobody answered, or an object changed meanwhile, and the pass is tried again.
            if isinstance(error, Unreachable) or (isinstance(error, TryAgain) and error.detail is OutcomeDetail.MOVED):
                raise
            raise _Stop(reason, str(error)) from error

    def _substitute(self, scale: FoundScale) -> None:
        """Show what the HPA proposed, then reset the Substitute to the actual replicas."""
        keeper, namespace = self._clients.substitutes, self._order.namespace
        manifest = self._generator.substitute(self._live)
        live = self._apply(keeper, manifest)
        # The HPA writes `spec.replicas` of the Substitute; for one round the status shows that proposal, as upstream does.
        proposed = (live.get("spec") or {}).get("replicas")
        if proposed is None:
            live = keeper.merge(namespace, self._child, {"spec": {"replicas": scale.replicas}})
            proposed = scale.replicas
        status = {"labelSelector": scale.selector, "replicas": proposed}
        # A proposal and the actual replicas follow one another here, so the replicas are no news.
        keeper.show_status(live, None if live.get("status") == status else status, scale.selector)
        if proposed != scale.there:
            keeper.merge(namespace, self._child, {"spec": {"replicas": scale.there}})

    def _prediction(self) -> None:
        wanted = self._generator.tsp(desired_objects.with_queries(self._live, self._order.queries))
        if wanted is None:
            self._remove(self._clients.tsps)
            return
        if wanted.manifest is None:
            raise GiveUp(doing="making", to=f"TimeSeriesPrediction '{self._child}'", answer=wanted.why_not)
        self._result.left_out += wanted.left_out
        live = self._apply(self._clients.tsps, wanted.manifest)
        self._result.prediction = ehpa_status.write_forecasts(
            self._clients.tsps, self._generator, live, self._order, self._forecast
        )

    @property
    def _forecast(self) -> LoadForecast | None:
        forecast = self._order.forecast
        return None if forecast is None or forecast.withdrawn or forecast.uid != self._uid else forecast

    def _hpa(self, scale: FoundScale, *, direct: bool) -> None:
        if direct:
            self._remove(self._clients.hpas)
            self._result.left_out += self._generator.cron_faults(self._live, to_seconds(self._order.at))
            return
        pods = (
            self._clients.pods.selected(self._order.namespace, scale.selector) if self._generator.needs_pods(self._live) else ()
        )
        wanted = self._generator.hpa(self._live, pods=pods, forecast=self._forecast, now=to_seconds(self._order.at))
        self._result.left_out += wanted.left_out
        if wanted.manifest is None:
            raise GiveUp(doing="making", to=f"HorizontalPodAutoscaler '{self._child}'", answer=wanted.why_not)
        live = self._apply(self._clients.hpas, wanted.manifest)
        # Server-side apply keeps what others added, and an addition to the behaviour changes what the autoscaler does.
        foreign = desired_objects.foreign_behavior(live, wanted.manifest)
        kind, drift = "HorizontalPodAutoscaler", "spec.behavior said more"
        if foreign is not None and self._may_write(kind, wanted.manifest, live, drift):
            live = self._clients.hpas.merge(self._order.namespace, self._child, foreign)
            self._wrote(kind, ObjectChange.UPDATED, live, drift)
        self._result.hpa = live

    def _apply(self, keeper: PassObjects, manifest: Mapping[str, Any]) -> Json:
        """Bring the object into its desired state. Raises GiveUp if it is not ours, and whatever the API raises."""
        before, kind = keeper.find(self._order.namespace, self._child), keeper.kind
        key = self._order.namespace, self._child, kind
        if before is not None:
            if not self._is_ours(before):
                raise GiveUp(
                    doing="applying", to=f"{kind} '{self._child}'", answer="there is one that does not follow from this EHPA"
                )
            difference = desired_objects.first_difference(before, manifest)
            if not difference:
                self._drifts.settled(key, manifest)
                return before
            difference += json_objects.last_writer(before)
        else:
            difference = "it was not there"
        if not self._may_write(kind, manifest, before, difference):
            return before or {}
        change = ObjectChange.CREATED if before is None else ObjectChange.UPDATED
        try:
            live = keeper.apply(self._order.namespace, manifest)
        except EdgeError as error:
            self.report.writes.append(ObjectWrite(kind, self._child, change, "", "", str(error)))
            raise
        if before is None or live["metadata"].get("resourceVersion") != before["metadata"].get("resourceVersion"):
            self._wrote(kind, change, live, difference)
        self._drifts.settled(key, manifest)
        return live

    def _may_write(self, kind: str, manifest: Mapping[str, Any], live: Json | None, difference: str) -> bool:
        """Whether to put the object right now; if not, the status says that somebody else keeps changing it."""
        now = to_seconds(self._order.at)
        again = self._drifts.again((self._order.namespace, self._child, kind), manifest, now)
        if again <= now:
            return True
        what = "deleting" if live is None else "changing"
        reason, until = _STEPS[kind], rfc3339(from_ms(int(again) * 1000))
        sentence = f"somebody else keeps {what} {kind} '{self._child}' ({difference}); it is put right again after {until}"
        self._left_changed = self._left_changed or _Stop(reason, sentence)
        if live is None:
            raise self._left_changed
        return False

    def _remove(self, keeper: PassObjects) -> None:
        """Delete an object of ours that the EHPA, as it is now, does not want."""
        live = keeper.find(self._order.namespace, self._child)
        if live is None or not self._is_ours(live) or live["metadata"].get("deletionTimestamp"):
            return
        if keeper.delete(self._order.namespace, self._child, str(live["metadata"]["uid"])):
            self._wrote(keeper.kind, ObjectChange.DELETED, live, "the EHPA does not want it any more")

    def _is_ours(self, live: Mapping[str, Any]) -> bool:
        """Whether the object has this EHPA's label, or is owned by it."""
        about = live["metadata"]
        owners = [owner.get("uid") for owner in about.get("ownerReferences") or () if owner.get("controller")]
        # Either is enough: somebody may have removed the label.
        return self._uid in ((about.get("labels") or {}).get(EHPA_UID), *owners)

    def _wrote(self, kind: str, change: ObjectChange, live: Mapping[str, Any], reason: str) -> None:
        version = str(live["metadata"].get("resourceVersion") or "")
        self.report.writes.append(ObjectWrite(kind, self._child, change, version, reason))

    def _show_metrics(self) -> None:
        """Show the HPA's current metrics in an annotation of the EHPA. The status is written though that is refused."""
        metrics = ((self._result.hpa or {}).get("status") or {}).get("currentMetrics")
        if not metrics:
            return
        text = yaml.safe_dump(metrics, sort_keys=True)
        if len(text) > _LONGEST_METRICS:
            return
        try:
            self._clients.ehpas.annotate(self._live, CURRENT_METRICS, text)
        except Unreachable:
            raise
        except EdgeError:
            return  # the log has a warning of it, and a later pass tries again
