"""The target of each VPA: the selector of its pods, or the sentence that says why the VPA cannot be served.

A target must exist, select pods, and itself be the topmost well-known or scalable controller: if it has a parent, that one
decides about its replicas. A VPA waits while its target is being listed or looked up.
"""

from dataclasses import dataclass, replace

from schemas.policies.vpa import VpaChanged
from streams.clients.kube.controllers import Controller, ControllerKey, key_of
from streams.sources.kube.owners.topmost_controller import WHOLE, Dependents, MissingController, OwnerChain, OwnerGraph


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """The result of resolving a VPA's target.

    `vpa` has its selector or says why it is unsupported; None while the target is unknown. `visited` are the controllers that the
    result rests on.
    """

    vpa: VpaChanged | None
    visited: tuple[ControllerKey, ...] = ()


class VpaTargets:
    """All VPAs of a cluster. Methods return those whose target is known now or may have changed."""

    def __init__(self, graph: OwnerGraph) -> None:
        self._graph = graph
        self._vpas: dict[str, VpaChanged] = {}
        self._dependents = Dependents()
        self._waiting: set[str] = set()

    @property
    def waiting(self) -> frozenset[str]:
        """The keys of VPAs whose targets are not known yet."""
        return frozenset(self._waiting)

    def upsert(self, vpa: VpaChanged) -> list[VpaChanged]:
        """A VPA exists, new or changed; `vpa` is as its object says, without a target."""
        self._vpas[vpa.key] = vpa
        return self._checked([vpa.key])

    def remove(self, key: str) -> None:
        """A VPA is gone."""
        self._vpas.pop(key, None)
        self._waiting.discard(key)
        self._dependents.set(key, ())

    def controller_changed(self, key: ControllerKey) -> list[VpaChanged]:
        """A controller came, changed or went."""
        return self._checked(self._dependents.on(key))

    def retry_waiting(self) -> list[VpaChanged]:
        """A list is complete or failed: look again at VPAs that wait, and at those whose chain ended at a watched kind."""
        names = (name for name in sorted(self._vpas) if name in self._waiting or self._ends_watched(name))
        return self._checked(list(names))

    def refresh_scales(self) -> list[VpaChanged]:
        """Look again at VPAs that depend on scales."""
        # No watch reports when a scale changes.
        names = (name for name, keys in self._dependents.items() if not all(key.well_known for key in keys))
        return self._checked(list(names))

    def _ends_watched(self, name: str) -> bool:
        return any(key.well_known for key in self._dependents.controllers(name)[-1:])

    def _checked(self, names: list[str]) -> list[VpaChanged]:
        resolved = []
        for name in names:
            check = check_target(self._vpas[name], self._graph)
            self._dependents.set(name, check.visited)
            if check.vpa is None:
                self._waiting.add(name)
            else:
                self._waiting.discard(name)
                resolved.append(check.vpa)
        return resolved


def check_target(vpa: VpaChanged, graph: OwnerGraph) -> TargetCheck:
    """Resolve a VPA's target. A VPA whose own spec makes no sense stays as it is."""
    # Its own fault comes first: whoever mends it sees the target's next.
    if vpa.unsupported:
        return TargetCheck(vpa)
    ref = vpa.target_ref
    if ref is None:
        return _unsupported(vpa, (), "Cannot read targetRef. Reason: there is no targetRef with kind and name")
    start = key_of(vpa.namespace, ref.api_version, ref.kind, ref.name)
    target, chain = graph.get(start), graph.chain(start)
    if chain.stop is MissingController.NOT_YET:
        return TargetCheck(None, chain.visited)
    if isinstance(target, MissingController):
        sentence = f"Cannot read targetRef. Reason: {start} {target.value}{_failure(graph, start)}"
        return _unsupported(vpa, chain.visited, sentence)
    return _found(vpa, target, chain, graph)


def _found(vpa: VpaChanged, target: Controller, chain: OwnerChain, graph: OwnerGraph) -> TargetCheck:
    if target.selector is None:
        return _unsupported(vpa, chain.visited, f"Cannot read targetRef. Reason: {target.key}: {target.fault}")
    if chain.stop is not None and chain.stop not in WHOLE:
        last = chain.visited[-1]
        sentence = f"{last}, which owns {target.key}, {chain.stop.value}{_failure(graph, last)}"
        return _unsupported(
            vpa, chain.visited, f"Error checking if target is a topmost well-known or scalable controller: {sentence}"
        )
    if chain.top != target.key:  # that controller would decide about the replicas, as upstream has it
        sentence = f"The target {target.key} has a parent controller, {chain.top}"
        return _unsupported(vpa, chain.visited, f"{sentence}, but it should point to a topmost well-known or scalable controller")
    return TargetCheck(replace(vpa, selector=target.selector), chain.visited)


def _failure(graph: OwnerGraph, key: ControllerKey) -> str:
    answer = graph.failure(key)
    return f": {answer}" if answer else ""


def _unsupported(vpa: VpaChanged, visited: tuple[ControllerKey, ...], sentence: str) -> TargetCheck:
    return TargetCheck(replace(vpa, unsupported=sentence), visited)
