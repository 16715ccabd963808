"""EHPAs as they are published, and the scale of what they scale, taken from the controllers that are watched anyway."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from schemas.facts.replica_scaling import ScaleSeen
from schemas.names import Workload
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, ehpa_key
from streams.clients.kube.autoscaler_specs import AutoscalerObject
from streams.clients.kube.watched_objects import ControllerObject, LabelSelector
from streams.sources.kube.publish import ehpa_policies
from streams.sources.kube.publish.fact_changes import PublishedFacts
from streams.sources.kube.publish.publisher import Publisher

EHPAS = "effectivehorizontalpodautoscalers"


@dataclass(frozen=True, slots=True)
class ControllerScale:
    """Replicas asked for and there, and the selector as text; `gone` once the controller is."""

    replicas: int
    there: int
    selector: str
    gone: bool = False


class AutoscalerPublisher:
    """The EHPAs of a cluster. A target of a kind that is not watched has no scale here."""

    def __init__(self, publisher: Publisher, cluster: str, now: Callable[[], datetime]) -> None:
        self._publisher, self._cluster, self._now = publisher, cluster, now
        self._ehpas: PublishedFacts[EhpaChanged] = PublishedFacts(publisher.publish, self._withdraw)
        self._targets: dict[str, str] = {}
        self._scales: dict[str, ControllerScale] = {}
        self._told: dict[str, ControllerScale] = {}

    def restore(self, published: Mapping[str, EhpaChanged]) -> None:
        """This is what the log holds. Scales are told again, which does no harm."""
        self._ehpas.restore(published)
        self._told.clear()
        for target in sorted(set(self._targets.values())):
            self._tell(target)

    def upsert(self, found: AutoscalerObject) -> None:
        """An EHPA exists."""
        policy = ehpa_policies.changed(found, self._cluster, self._now())
        policy = ehpa_policies.within_bounds(policy, self._publisher.size_of_policy)
        self._ehpas.upsert(policy.key, policy)
        self._targets[policy.key] = policy.target
        self._tell(policy.target)

    def remove(self, namespace: str, name: str) -> None:
        """An EHPA is gone."""
        key = ehpa_key(self._cluster, namespace, name)
        self._ehpas.remove(key)
        self._targets.pop(key, None)

    def mark_synced(self) -> None:
        """Every EHPA that exists was seen."""
        self._ehpas.mark_synced()

    def controller_seen(self, kind: str, found: ControllerObject) -> None:
        """A controller exists, with this scale."""
        target = f"{self._cluster}/{found.metadata.namespace}/{kind}/{found.metadata.name}"
        asked = 1 if found.spec.replicas is None else found.spec.replicas
        self._scales[target] = ControllerScale(asked, found.status.replicas, _text(found.spec.selector))
        self._tell(target)

    def controller_gone(self, namespace: str, kind: str, name: str) -> None:
        """A controller is gone."""
        target = f"{self._cluster}/{namespace}/{kind}/{name}"
        known = self._scales.pop(target, None)
        if known is not None and target in self._targets.values():
            self._publish(target, replace(known, gone=True))

    def _tell(self, target: str) -> None:
        scale = self._scales.get(target)
        if scale is not None and self._told.get(target) != scale and target in self._targets.values():
            self._publish(target, scale)

    def _publish(self, target: str, scale: ControllerScale) -> None:
        self._told[target] = scale
        workload = Workload.parse(target)
        reason = f"the {workload.kind} '{workload.namespace}/{workload.name}' is gone" if scale.gone else ""
        seen = ScaleSeen(self._now(), workload, scale.replicas, scale.there, scale.selector, reason)
        self._publisher.publish(seen)

    def _withdraw(self, ehpa: EhpaChanged) -> None:
        self._publisher.publish(EhpaRemoved(self._now(), ehpa.cluster, ehpa.namespace, ehpa.name))


def _text(selector: LabelSelector | None) -> str:
    """The labels that a selector asks for, as kubectl writes them; expressions are left out."""
    labels = (selector.match_labels if selector is not None else None) or {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
