"""Publishes what scales workloads: EHPAs, TimeSeriesPredictions, HPAs, and the scales of EHPAs' targets.

Scales are taken from the controllers that are watched anyway.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from schemas.facts.replica_scaling import HpaCondition, HpaGone, HpaSeen, ScaleSeen
from schemas.names import Workload
from schemas.policies.ehpa import (
    EHPA_KIND,
    EhpaChanged,
    EhpaRemoved,
    TimeSeriesPredictionChanged,
    TimeSeriesPredictionRemoved,
    ehpa_key,
    tsp_key,
)
from schemas.policies.vpa import TargetRef
from streams.clients.kube.autoscaler_specs import AutoscalerObject, HpaObject, PredictionObject
from streams.clients.kube.watched_objects import ControllerObject, KubeObject, LabelSelector
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish import ehpa_policies
from streams.sources.kube.publish.publisher import NamesNothingError, PublishedFacts, Publisher, SubjectPublisher
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread
from streams.sources.kube.watch.watched_resources import CONTROLLERS, EHPAS, HPAS, TSPS


@dataclass(frozen=True, slots=True)
class ControllerScale:
    """Replicas asked for and there, and the selector as text; `gone` once the controller is."""

    replicas: int
    there: int
    selector: str
    gone: bool = False


MetricQueries = Callable[[EhpaChanged], Mapping[str, str]]
"""What the cluster's rules give for the metrics of an EHPA, by identifier."""


def no_queries(ehpa: EhpaChanged) -> Mapping[str, str]:
    """For a cluster without rules."""
    del ehpa
    return {}


class AutoscalerPublisher(SubjectPublisher):
    """The EHPAs, predictions and HPAs of a cluster. A target of a kind that is not watched has no scale here."""

    def __init__(
        self, publisher: Publisher, cluster: str, now: Callable[[], datetime], queries: MetricQueries = no_queries
    ) -> None:
        self._publisher, self._cluster, self._now, self._queries = publisher, cluster, now, queries
        self._ehpas: PublishedFacts[EhpaChanged] = publisher.facts(EhpaRemoved, now)
        self._predictions: PublishedFacts[TimeSeriesPredictionChanged] = publisher.facts(TimeSeriesPredictionRemoved, now)
        self._hpas: PublishedFacts[HpaSeen] = publisher.facts(HpaGone, now)
        self._scaled: dict[str, HpaSeen] = {}
        self._targets: dict[str, str] = {}
        self._scales: dict[str, ControllerScale] = {}
        self._published_scales: dict[str, ControllerScale] = {}

    def restore(self, published: PublishedState, _at: datetime) -> None:
        """Start from what the log has."""
        self._ehpas.restore(published.ehpas)
        self._predictions.restore(published.predictions)
        self._hpas.restore(published.seen_hpas)
        self._scaled = {**published.seen_hpas, **self._scaled}
        self._published_scales.clear()  # they are published again, which does no harm
        for target in sorted(set(self._targets.values())):
            self._publish_scale(target)

    def seen(self, kind: str, item: KubeObject, _at: datetime) -> None:
        """An EHPA, a prediction, an HPA, or a possible target with its scale."""
        match item:
            case AutoscalerObject():
                policy = ehpa_policies.changed(item, self._cluster, self._now())
                # Before the bounds are checked, because the queries count towards the size.
                policy = replace(policy, queries=dict(self._queries(policy)))
                policy = ehpa_policies.within_bounds(policy, self._publisher.size_of_policy)
                self._ehpas.upsert(policy.key, policy)
                self._targets[policy.key] = policy.target
                self._publish_scale(policy.target)
            case PredictionObject():
                prediction = ehpa_policies.prediction_changed(item, self._cluster, self._now())
                prediction = ehpa_policies.prediction_within_bounds(prediction, self._publisher.size_of_policy)
                self._predictions.upsert(prediction.key, prediction)
            case HpaObject():
                self._hpa_seen(f"{item.metadata.namespace}/{item.metadata.name}", item)
            case ControllerObject():
                self._controller_seen(CONTROLLERS[kind], item)
            case _:
                pass

    def gone(self, gone: ObjectGone, _at: datetime) -> None:
        """An object is gone."""
        if gone.kind in CONTROLLERS:
            self._controller_gone(gone.namespace, CONTROLLERS[gone.kind], gone.name)
        elif gone.kind == EHPAS.name:
            key = ehpa_key(self._cluster, gone.namespace, gone.name)
            self._ehpas.remove(key)
            self._targets.pop(key, None)
        elif gone.kind == TSPS.name:
            self._predictions.remove(tsp_key(self._cluster, gone.namespace, gone.name))
        elif gone.kind == HPAS.name:
            self._hpas.remove(f"{gone.namespace}/{gone.name}")
            self._scaled.pop(f"{gone.namespace}/{gone.name}", None)

    def unread(self, unread: ObjectUnread) -> None:
        """What was published of an object that cannot be read is kept."""
        if unread.kind == EHPAS.name:
            self._ehpas.keep(ehpa_key(self._cluster, unread.namespace, unread.name))
        elif unread.kind == TSPS.name:
            self._predictions.keep(tsp_key(self._cluster, unread.namespace, unread.name))
        elif unread.kind == HPAS.name:
            self._hpas.keep(f"{unread.namespace}/{unread.name}")

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """Every object of a watched kind that exists was seen."""
        if kind == EHPAS.name:
            self._ehpas.mark_synced()
        elif kind == TSPS.name:
            self._predictions.mark_synced()
        elif kind == HPAS.name:
            self._hpas.mark_synced()

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish HPAs again that have not changed for so long, and EHPAs whose queries have changed with the rules."""
        self._hpas.republish(at, older)
        for policy in self._ehpas.current():
            # The rules may change without any change of an object.
            queries = dict(self._queries(policy))
            if queries != policy.queries:
                self._ehpas.upsert(policy.key, replace(policy, at=at, queries=queries))

    def _hpa_seen(self, name: str, hpa: HpaObject) -> None:
        """An HPA that scales another workload now is gone for the former one. Raises ValueError, or NamesNothingError."""
        fact, before = hpa_seen(hpa, self._cluster, self._now()), self._scaled.pop(name, None)
        # Readers keep an HPA with its workload, so the former one would keep it, too.
        if before is not None and (fact is None or fact.workload != before.workload):
            self._hpas.remove(name)
        if fact is None:
            raise NamesNothingError("spec.scaleTargetRef names no kind or no name, or one with a slash")
        self._scaled[name] = fact
        self._hpas.upsert(name, fact)

    def _controller_seen(self, kind: str, controller: ControllerObject) -> None:
        """A controller exists, with this scale."""
        target = f"{self._cluster}/{controller.metadata.namespace}/{kind}/{controller.metadata.name}"
        # Kubernetes' own default.
        replicas = 1 if controller.spec.replicas is None else controller.spec.replicas
        self._scales[target] = ControllerScale(replicas, controller.status.replicas, _text(controller.spec.selector))
        self._publish_scale(target)

    def _controller_gone(self, namespace: str, kind: str, name: str) -> None:
        """A controller is gone."""
        target = f"{self._cluster}/{namespace}/{kind}/{name}"
        scale = self._scales.pop(target, None)
        if scale is not None and target in self._targets.values():
            self._publish(target, replace(scale, gone=True))

    def _publish_scale(self, target: str) -> None:
        scale = self._scales.get(target)
        # The scales of all controllers are kept, because an EHPA may come after its target.
        if scale is not None and self._published_scales.get(target) != scale and target in self._targets.values():
            self._publish(target, scale)

    def _publish(self, target: str, scale: ControllerScale) -> None:
        self._published_scales[target] = scale
        workload = Workload.parse(target)
        reason = f"the {workload.kind} '{workload.namespace}/{workload.name}' is gone" if scale.gone else ""
        seen = ScaleSeen(self._now(), workload, scale.replicas, scale.there, scale.selector, reason)
        self._publisher.publish(seen)


def _text(selector: LabelSelector | None) -> str:
    """The labels of a selector, as kubectl writes them; expressions are left out."""
    labels = (selector.match_labels if selector is not None else None) or {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def hpa_seen(hpa: HpaObject, cluster: str, at: datetime) -> HpaSeen | None:
    """The fact; None for one that names nothing to scale. Raises ValueError with the place of what cannot be."""
    meta, spec, status = hpa.metadata, hpa.spec, hpa.status
    ref = spec.scale_target_ref
    if not ref.kind or not ref.name or "/" in ref.kind + ref.name:
        return None
    # An EHPA owns the HPA that is generated from it.
    owners = [owner.uid for owner in meta.owner_references or () if owner.kind == EHPA_KIND]
    return HpaSeen(
        at=at,
        workload=Workload(cluster, meta.namespace, ref.kind, ref.name),
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or at,
        target_ref=TargetRef(ref.kind, ref.name, ref.api_version),
        max_replicas=spec.max_replicas,
        min_replicas=spec.min_replicas,
        metrics=ehpa_policies.read_metrics(spec.metrics),
        behavior=ehpa_policies.behavior(spec.behavior),
        current=status.current_replicas,
        desired=status.desired_replicas,
        last_scale=status.last_scale_time,
        conditions=tuple(
            HpaCondition(condition.type, condition.status, condition.reason, condition.message)
            for condition in status.conditions or ()
        ),
        owner_uid=owners[0] if owners else "",
        uid=meta.uid,
        generation=meta.generation,
    )
