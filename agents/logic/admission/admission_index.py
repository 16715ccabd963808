"""Admission's view of one cluster from the log: policies and LimitRanges, combined with recommendations.

Workloads under a policy of our own have no VPA object; they get one that exists only here, named as the policy's target, so that
all pods go through the same steps. A VPA that another recommender serves is left to that one. Serves one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from agents.engine.turn import Recorded
from agents.logic.admission import vpa_manifest
from agents.logic.admission.vpa_manifest import Vpa
from agents.logic.governing_policies import Policies, PolicyRecord
from agents.logic.resources import limit_ranges
from agents.logic.resources.limit_ranges import NONE, Ranges
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.update_facts import HpaTargetChanged, HpaTargetRemoved
from schemas.names import Place, Workload
from schemas.policies.control import RevertEnded, RevertRequested
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vertical import GuardOverrides
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged, VpaRemoved

Recommended = Callable[[str], RequestsRecommended | None]
"""The newest recommendation of a workload key; None when there is none."""


class AdmissionRules(NamedTuple):
    """Whether a resource that an HPA scales by is left to it, and whether LimitRanges bound requests as they do upstream."""

    honors_hpas: bool = True
    upstream: bool = False


FindAdmissionRules = Callable[[GuardOverrides], AdmissionRules]
"""The updater's own rules for workloads whose policy says this of the guards."""
_MadeFrom = tuple[PolicyRecord, RequestsRecommended | None, frozenset[str], bool]
_KEPT = 100_000
"""VPAs put together that are kept at most."""


class AdmissionIndex:
    """`recommender`: the name under which VPAs are served."""

    def __init__(
        self,
        cluster: str,
        recommended: Recommended,
        recommender: str = DEFAULT_RECOMMENDER,
        find_rules: FindAdmissionRules = lambda _guards: AdmissionRules(),
    ) -> None:
        self._cluster, self._recommended, self._find_rules = cluster, recommended, find_rules
        self._policies = Policies(recommender)
        self._vpas_in: dict[str, set[str]] = {}
        """Keys of VPAs by namespace."""
        self._limit_ranges: dict[str, dict[str, LimitRangeChanged]] = {}
        self._ranges: dict[str, Ranges] = {}
        self._reverted: set[str] = set()
        """Workloads that an operator had put back as they were; their new pods are left alone."""
        self._hpas: dict[str, tuple[str, tuple[str, ...]]] = {}
        """What each HPA and EHPA scales, and by which resources."""
        self._scaled: dict[str, frozenset[str]] | None = None
        """The resources by which HPAs scale a workload."""
        self._made: dict[tuple[str, str], tuple[_MadeFrom, Vpa]] = {}

    def serve(self, recommender: str) -> None:
        """Serve the VPAs of this name from now on."""
        self._policies.serve(recommender)

    def apply(self, event: Event, place: Place) -> None:
        """Take in one event of `policies`."""
        # `policies` has all clusters, and names of namespaces repeat from cluster to cluster.
        if isinstance(event, LimitRangeChanged | LimitRangeRemoved):
            if event.cluster == self._cluster:
                self._apply_limit_range(event)
            return
        if isinstance(event, HpaTargetChanged | HpaTargetRemoved | EhpaChanged | EhpaRemoved):
            self._apply_hpa(event)
            return
        if isinstance(event, RevertRequested):
            self._reverted.add(event.workload.key)
        elif isinstance(event, RevertEnded):
            self._reverted.discard(event.workload.key)
        self._policies.take(Recorded(event, place))
        if isinstance(event, VpaChanged) and event.cluster == self._cluster:
            self._vpas_in.setdefault(event.namespace, set()).add(event.key)
        elif isinstance(event, VpaRemoved) and event.cluster == self._cluster:
            self._vpas_in.get(event.namespace, set()).discard(event.key)

    def governs(self, namespace: str) -> bool:
        """Whether any policy could govern a pod of this namespace; if none can, its owners need not be looked up."""
        if self._vpas_in.get(namespace):
            return True
        within = f"{self._cluster}/{namespace}/"
        targets = (target.removesuffix("*") for target, _ in self._policies.table.items())
        return any(target.startswith(within) or within.startswith(target) for target in targets)

    def vpas(self, namespace: str, kind: str, name: str) -> Sequence[Vpa]:
        """The VPA that governs the workload of this kind and name, or the policy of our own that does, as one."""
        if not (namespace and kind and name):
            return ()
        workload = Workload(self._cluster, namespace, kind, name).key
        # An operator put this workload back as it was, so its new pods are left alone.
        if workload in self._reverted:
            return ()
        governing = self._policies.of(workload)
        if governing is None or governing.policy.foreign:
            return ()
        # No other VPA is asked in its place: recommender, updater and status go by this one.
        return [self._vpa(governing, workload, namespace)]

    def ranges(self, namespace: str) -> Ranges:
        """The LimitRanges of a namespace."""
        ranges = self._ranges.get(namespace)
        if ranges is None:
            entries = self._limit_ranges.get(namespace)
            ranges = limit_ranges.of_events(entries.values()) if entries else NONE
            if entries:
                self._ranges[namespace] = ranges
        return ranges

    def _apply_hpa(self, event: HpaTargetChanged | HpaTargetRemoved | EhpaChanged | EhpaRemoved) -> None:
        if isinstance(event, HpaTargetRemoved | EhpaRemoved):
            self._hpas.pop(event.key, None)
        elif event.cluster == self._cluster:
            # An EHPA scales by what its own HPA will have, also before that HPA is there.
            if isinstance(event, EhpaChanged):
                self._hpas[event.key] = event.target, event.scaled_by
            else:
                self._hpas[event.key] = event.workload, event.resources
        self._scaled = None

    def _scaled_by_hpas(self, workload: str) -> frozenset[str]:
        """The resources by which HPAs scale a workload."""
        if self._scaled is None:
            self._scaled = {}
            for scaled, resources in self._hpas.values():
                self._scaled[scaled] = self._scaled.get(scaled, frozenset()) | set(resources)
        return self._scaled.get(workload, frozenset())

    def _apply_limit_range(self, event: LimitRangeChanged | LimitRangeRemoved) -> None:
        self._ranges.pop(event.namespace, None)
        entries = self._limit_ranges.setdefault(event.namespace, {})
        if isinstance(event, LimitRangeChanged):
            entries[event.name] = event
        else:
            entries.pop(event.name, None)
        if not entries:
            del self._limit_ranges[event.namespace]

    def _vpa(self, governing: PolicyRecord, workload: str, namespace: str) -> Vpa:
        rules, recommended = self._find_rules(governing.policy.guards), self._recommended(workload)
        scaled_by_hpas = self._scaled_by_hpas(workload) if rules.honors_hpas else frozenset()
        source = governing, recommended, scaled_by_hpas, rules.upstream
        key = (governing.policy.target if governing.policy.vpa is None else governing.policy.vpa.key, workload)
        # A rollout asks for the same VPA hundreds of times, so it is put together once for each policy and recommendation.
        built = self._made.get(key)
        # By identity, because comparing a policy and a recommendation would cost as much as putting them together.
        if built is not None and built[0][0] is governing and built[0][1] is recommended and built[0][2:] == source[2:]:
            return built[1]
        containers = None if recommended is None else recommended.containers
        if governing.policy.vpa is None:
            vpa = vpa_manifest.of_policy(
                governing.policy.target, governing.policy.update_mode, governing.policy.containers, containers
            )
            vpa = replace(vpa, namespace=namespace)
        else:
            vpa = vpa_manifest.of_event(governing.policy.vpa, containers)
        vpa = replace(vpa, left=scaled_by_hpas, patches=governing.policy.patch_new_pods, upstream=rules.upstream)
        if len(self._made) >= _KEPT:
            self._made.clear()
        self._made[key] = source, vpa
        return vpa
