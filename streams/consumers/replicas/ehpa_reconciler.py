"""One pass over one EHPA: look at it and at all that follows from it, put right what is not as it is to be, say so.

Everything is read from the API server at the time, so it does not matter what was done before, by whom, and how often a pass is
begun anew. An object of the expected name that is another's is never touched. While nothing may be changed, only the status is
written: it says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import structlog
import yaml

from schemas.decisions.forecasts import LoadForecast
from schemas.outcomes import ActionFinished, ObjectChange, OutcomeDetail, Result
from schemas.times import to_seconds
from streams.clients.kube.applied_objects import ObjectKeeper
from streams.clients.kube.controllers import ControllerKey
from streams.clients.kube.scales import FoundScale
from streams.consumers.replicas import object_drift
from streams.consumers.replicas.ehpa_status import EhpaFindings, NotReady, desired_status, tsp_status
from streams.consumers.replicas.object_generator import UID_LABEL, ObjectGenerator
from streams.errors import EdgeError, GiveUp, TryAgain, Unreachable

Json = dict[str, Any]
_log = structlog.get_logger(__name__)
CURRENT_METRICS = "autoscaling.crane.io/effective-hpa-current-metrics"
"""The annotation that shows what an HPA's metrics read."""
QUERY = "metric-query.autoscaling.crane.io"
"""Before the slash in an annotation that says a metric's query."""
_LONGEST_METRICS = 100_000
"""Characters of that annotation; all annotations of an object together may have 256 KiB."""
_SEEN = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
"""Kinds whose scale is in the log, so that replicas are planned for them."""
DIRECT = "ullage/scaling"
"""The annotation of an EHPA that says `direct`: no HPA is generated, its plans are carried out."""


class Scales(Protocol):
    """Reads and sets scales."""

    def find(self, key: ControllerKey) -> FoundScale | None:
        """The scale; None when there is none."""


class PodLists(Protocol):
    """Lists pods."""

    def selected(self, namespace: str, selector: str) -> Sequence[Json]:
        """The pods that a selector, as text, selects."""


@dataclass(frozen=True, slots=True)
class ReplicaClients:
    """The objects that a pass reads and writes."""

    ehpas: ObjectKeeper
    hpas: ObjectKeeper
    tsps: ObjectKeeper
    substitutes: ObjectKeeper
    scales: Scales
    pods: PodLists


@dataclass(frozen=True, slots=True)
class PassOrder:
    """What a pass is to look at: the object, its newest forecast, why nothing may be changed (or None), and a rival.

    `queries` are what rules say of its metrics, by identifier; `scaled` is what the scaler did last to the target;
    `unsupported` why nobody can go by the object.
    """

    namespace: str
    name: str
    uid: str
    at: datetime
    forecast: LoadForecast | None = None
    objection: str | None = None
    rival: str = ""
    queries: Mapping[str, str] = field(default_factory=dict)
    scaled: ActionFinished | None = None
    unsupported: str = ""


@dataclass(frozen=True, slots=True)
class ObjectWrite:
    """An object that a pass changed, or could not change (then `fault` says why)."""

    kind: str
    name: str
    change: ObjectChange
    version: str
    reason: str
    fault: str = ""


@dataclass(slots=True)
class PassReport:
    """What came of a pass: whether the object is there, its generation, and what was written."""

    found: bool = False
    generation: int = 0
    writes: list[ObjectWrite] = field(default_factory=list)


class _Stop(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.not_ready = NotReady(reason, message)


class EhpaReconciler:
    """Passes over EHPAs. Threads may share it, one EHPA at a time."""

    def __init__(self, clients: ReplicaClients, generator: ObjectGenerator) -> None:
        self._clients, self._generator = clients, generator

    def run_pass(self, order: PassOrder) -> PassReport:
        """One pass. Raises TryAgain and GiveUp when the EHPA or its target cannot be read, or the status not be written."""
        live = self._clients.ehpas.find(order.namespace, order.name)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return PassReport()
        return _EhpaPass(self._clients, self._generator, order, live).run()

    def write_prediction(self, order: PassOrder) -> None:
        """The status of a TimeSeriesPrediction that stands alone. Raises TryAgain and GiveUp."""
        live = self._clients.tsps.find(order.namespace, order.name)
        if live is not None:
            forecast = order.forecast
            fits = forecast is not None and not forecast.withdrawn and forecast.uid == live["metadata"]["uid"]
            write_forecasts(self._clients.tsps, self._generator, live, order, forecast if fits else None)


class _EhpaPass:
    def __init__(self, clients: ReplicaClients, generator: ObjectGenerator, order: PassOrder, live: Json) -> None:
        self._clients, self._generator, self._order, self._live = clients, generator, order, live
        about = live["metadata"]
        self._uid, self._child = str(about["uid"]), f"ehpa-{about['name']}"
        self._spec: Json = live.get("spec") or {}
        self._report = PassReport(found=True, generation=int(about.get("generation") or 0))
        self._result = EhpaFindings()

    def run(self) -> PassReport:
        """All of it; a step that fails keeps later ones from being taken, and is said."""
        try:
            self._steps()
        except _Stop as stop:
            self._result.not_ready = stop.not_ready
        status = desired_status(self._live.get("status") or {}, self._result, self._order.at)
        if status != (self._live.get("status") or {}):
            self._clients.ehpas.merge(self._order.namespace, self._order.name, {"status": _replacing(status)}, part="status")
        return self._report

    def _steps(self) -> None:
        if self._order.rival:
            if self._order.objection is None:  # two HPAs on one workload, and Kubernetes scales it by neither
                self._try("FailedReconcileHPA", lambda: self._remove(self._clients.hpas, "HorizontalPodAutoscaler"))
            raise _Stop("TargetTaken", f"the older EHPA '{self._order.rival}' scales the same target")
        scale = self._scale()
        if scale.replicas == 0 and self._spec.get("minReplicas") != 0:
            self._result.current = 0
            raise _Stop("ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
        if self._order.objection is not None:
            self._look_only()
            raise _Stop("ChangesNotAllowed", self._order.objection)
        preview, direct = self._spec.get("scaleStrategy") == "Preview", self._is_direct
        if preview and not direct:
            self._try("FailedReconcileSubstitute", lambda: self._substitute(scale))
        self._try("FailedReconcilePrediction", self._prediction)
        self._try("FailedReconcileHPA", lambda: self._hpa(scale, direct=direct))
        if not preview or direct:
            self._try("FailedReconcileSubstitute", lambda: self._remove(self._clients.substitutes, "Substitute"))
        self._show_metrics()
        if direct or (preview and self._spec.get("specificReplicas") is not None):
            self._scaling(scale, direct=direct)

    def _scaling(self, scale: FoundScale, *, direct: bool) -> None:
        """What the scaler does instead of an HPA, and why it does not."""
        scaled = self._order.scaled
        self._result.current = scale.there
        if direct:
            self._result.expected = scale.replicas
        if scaled is not None and scaled.result is Result.DONE:
            self._result.scaled = scaled.at
        kind = str((self._spec.get("scaleTargetRef") or {}).get("kind") or "")
        if kind not in _SEEN:
            raise _Stop("FailedScale", f"without an HPA only {', '.join(_SEEN)} are scaled, and the target is a {kind}")
        refused = scaled.reason if scaled is not None and scaled.result is Result.FAILED else ""
        if direct:
            refused = refused or self._order.unsupported or (self._forecast.refused if self._forecast is not None else "")
        if refused:
            raise _Stop("FailedScale", refused)

    @property
    def _is_direct(self) -> bool:
        return (self._live["metadata"].get("annotations") or {}).get(DIRECT) == "direct"

    def _scale(self) -> FoundScale:
        ref = self._spec.get("scaleTargetRef") or {}
        kind, name, version = (str(ref.get(word) or "") for word in ("kind", "name", "apiVersion"))
        try:
            found = self._clients.scales.find(ControllerKey(self._order.namespace, kind, name, version))
        except GiveUp as error:
            raise _Stop("FailedGetScale", str(error)) from error
        if found is None:
            raise _Stop("FailedGetScale", f"{kind} '{self._order.namespace}/{name}' has no scale, or does not exist")
        return found

    def _look_only(self) -> None:
        """What there is, for the status."""
        hpa = self._clients.hpas.find(self._order.namespace, self._child)
        self._result.hpa = hpa if hpa is not None and self._is_ours(hpa) else None
        tsp = self._clients.tsps.find(self._order.namespace, self._child)
        self._result.prediction = _ready_condition(tsp) if tsp is not None and self._is_ours(tsp) else None

    def _try(self, reason: str, step: Any) -> None:
        """A step that the API refuses, or that cannot be taken, ends the pass with this reason."""
        try:
            step()
        except EdgeError as error:
            if isinstance(error, Unreachable) or (isinstance(error, TryAgain) and error.detail is OutcomeDetail.MOVED):
                raise
            raise _Stop(reason, str(error)) from error

    def _substitute(self, scale: FoundScale) -> None:
        """Shows for one round what the HPA proposed, then says again what there is, as upstream's does."""
        keeper, namespace = self._clients.substitutes, self._order.namespace
        manifest = self._generator.substitute(self._live)
        live = self._apply(keeper, "Substitute", manifest)
        proposed = (live.get("spec") or {}).get("replicas")
        if proposed is None:
            live = keeper.merge(namespace, self._child, {"spec": {"replicas": scale.replicas}})
            proposed = scale.replicas
        status = {"labelSelector": scale.selector, "replicas": proposed}
        if live.get("status") != status:
            keeper.merge(namespace, self._child, {"status": status}, part="status")
        if proposed != scale.there:
            keeper.merge(namespace, self._child, {"spec": {"replicas": scale.there}})

    def _prediction(self) -> None:
        wanted = self._generator.tsp(_with_queries(self._live, self._order.queries))
        if wanted is None:
            self._remove(self._clients.tsps, "TimeSeriesPrediction")
            return
        if wanted.manifest is None:
            raise GiveUp(doing="making", to=f"TimeSeriesPrediction '{self._child}'", answer=wanted.why_not)
        self._result.left_out += wanted.left_out
        live = self._apply(self._clients.tsps, "TimeSeriesPrediction", wanted.manifest)
        self._result.prediction = write_forecasts(self._clients.tsps, self._generator, live, self._order, self._forecast)

    @property
    def _forecast(self) -> LoadForecast | None:
        found = self._order.forecast
        return None if found is None or found.withdrawn or found.uid != self._uid else found

    def _hpa(self, scale: FoundScale, *, direct: bool) -> None:
        if direct:
            self._remove(self._clients.hpas, "HorizontalPodAutoscaler")
            self._result.left_out += self._generator.cron_faults(self._live, to_seconds(self._order.at))
            return
        pods = (
            self._clients.pods.selected(self._order.namespace, scale.selector) if self._generator.needs_pods(self._live) else ()
        )
        wanted = self._generator.hpa(self._live, pods=pods, forecast=self._forecast, now=to_seconds(self._order.at))
        self._result.left_out += wanted.left_out
        if wanted.manifest is None:
            raise GiveUp(doing="making", to=f"HorizontalPodAutoscaler '{self._child}'", answer=wanted.why_not)
        live = self._apply(self._clients.hpas, "HorizontalPodAutoscaler", wanted.manifest)
        foreign = object_drift.foreign_behavior(live, wanted.manifest)
        if foreign is not None:
            live = self._clients.hpas.merge(self._order.namespace, self._child, foreign)
            self._wrote("HorizontalPodAutoscaler", ObjectChange.UPDATED, live, "spec.behavior said more")
        self._result.hpa = live

    def _apply(self, keeper: ObjectKeeper, kind: str, manifest: Mapping[str, Any]) -> Json:
        """The object as it is to be. Raises GiveUp for one that is another's, and what the API raises."""
        before = keeper.find(self._order.namespace, self._child)
        if before is not None:
            if not self._is_ours(before):
                raise GiveUp(
                    doing="applying", to=f"{kind} '{self._child}'", answer="there is one that does not follow from this EHPA"
                )
            difference = object_drift.first_difference(before, manifest)
            if not difference:
                return before
        change = ObjectChange.CREATED if before is None else ObjectChange.UPDATED
        try:
            live = keeper.apply(self._order.namespace, manifest)
        except EdgeError as error:
            self._report.writes.append(ObjectWrite(kind, self._child, change, "", "", str(error)))
            raise
        if before is None or live["metadata"].get("resourceVersion") != before["metadata"].get("resourceVersion"):
            self._wrote(kind, change, live, "it was not there" if before is None else difference)
        return live

    def _remove(self, keeper: ObjectKeeper, kind: str) -> None:
        """Delete what followed from this EHPA when it was another."""
        found = keeper.find(self._order.namespace, self._child)
        if found is None or not self._is_ours(found) or found["metadata"].get("deletionTimestamp"):
            return
        if keeper.delete(self._order.namespace, self._child, str(found["metadata"]["uid"])):
            self._wrote(kind, ObjectChange.DELETED, found, "the EHPA does not want it any more")

    def _is_ours(self, found: Mapping[str, Any]) -> bool:
        """By its label, or by its owner where somebody has taken the label off."""
        about = found["metadata"]
        owners = [each.get("uid") for each in about.get("ownerReferences") or () if each.get("controller")]
        return self._uid in ((about.get("labels") or {}).get(UID_LABEL), *owners)

    def _wrote(self, kind: str, change: ObjectChange, live: Mapping[str, Any], reason: str) -> None:
        version = str(live["metadata"].get("resourceVersion") or "")
        self._report.writes.append(ObjectWrite(kind, self._child, change, version, reason))

    def _show_metrics(self) -> None:
        """What the HPA's metrics read, as an annotation of the EHPA; a failure is not worth more than a later try."""
        metrics = ((self._result.hpa or {}).get("status") or {}).get("currentMetrics")
        if not metrics:
            return
        text = yaml.safe_dump(metrics, sort_keys=True)
        if len(text) > _LONGEST_METRICS:
            return
        if (self._live["metadata"].get("annotations") or {}).get(CURRENT_METRICS) != text:
            patch = {"metadata": {"annotations": {CURRENT_METRICS: text}}}
            try:
                self._clients.ehpas.merge(self._order.namespace, self._order.name, patch)
            except Unreachable:
                raise
            except EdgeError as error:
                _log.warning(
                    "current metrics cannot be shown", ehpa=f"{self._order.namespace}/{self._order.name}", error=str(error)
                )


def _with_queries(live: Json, queries: Mapping[str, str]) -> Json:
    """The EHPA, with annotations for what rules say of its metrics and it does not say itself."""
    about = live["metadata"]
    told = {**{f"{QUERY}/{name}": text for name, text in queries.items()}, **(about.get("annotations") or {})}
    return {**live, "metadata": {**about, "annotations": told}} if queries else live


def write_forecasts(
    tsps: ObjectKeeper, generator: ObjectGenerator, live: Json, order: PassOrder, forecast: LoadForecast | None
) -> Json | None:
    """Keep the status of a TimeSeriesPrediction; gives its condition Ready.

    It is written when its forecasts end too soon, or when other metrics can be forecast: once in a window, as upstream does.
    """
    before, now = live.get("status") or {}, to_seconds(order.at)
    forecasts, condition = generator.tsp_status(live, forecast, now, unsupported=order.unsupported)
    same = _readiness(before.get("predictionMetrics") or ()) == _readiness(forecasts)
    if not same or (forecasts and generator.is_outdated(live, now)) or _said(_ready_condition(live)) != _said(condition):
        status = tsp_status(before, forecasts, condition, order.at)
        about = live["metadata"]
        live = tsps.merge(str(about["namespace"]), str(about["name"]), {"status": status}, part="status")
    return _ready_condition(live)


def _readiness(forecasts: Sequence[Mapping[str, Any]]) -> set[tuple[str, bool]]:
    return {(str(each.get("resourceIdentifier")), bool(each.get("ready"))) for each in forecasts}


def _said(condition: Mapping[str, Any] | None) -> tuple[object, ...]:
    return () if condition is None else tuple(condition.get(key) or "" for key in ("status", "reason", "message"))


def _ready_condition(tsp: Mapping[str, Any]) -> Json | None:
    conditions = (tsp.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Ready"), None)


def _replacing(status: Json) -> Json:
    """A merge patch leaves what it does not name."""
    return {**dict.fromkeys(("expectReplicas", "currentReplicas", "lastScaleTime")), **status}
