"""What a VPA's target is found to be: the selector of its pods, or a sentence why the VPA cannot be served.

A target must be there, select pods, and be the topmost well-known or scalable controller itself: above another one's replicas
there is somebody else who decides.
"""

from dataclasses import dataclass, replace

from schemas.policies.vpa import VpaChanged
from streams.sources.kube.owners.controllers import Controller, Key, key_of
from streams.sources.kube.owners.owner_chain import Chain, Missing, Owners


@dataclass(frozen=True, slots=True)
class Judged:
    """The VPA as it is to be told; None while its target is being looked for. `visited`: the controllers that it rests on."""

    vpa: VpaChanged | None
    visited: tuple[Key, ...] = ()


def judge(vpa: VpaChanged, owners: Owners) -> Judged:
    """Resolve the target. A spec that cannot be carried out stays what it is."""
    if vpa.unsupported:
        return Judged(vpa)
    ref = vpa.target_ref
    if ref is None:
        return _unsupported(vpa, (), "Cannot read targetRef. Reason: there is no targetRef with kind and name")
    start = key_of(vpa.namespace, ref.api_version, ref.kind, ref.name)
    target, chain = owners.look(start), owners.chain(start)
    if chain.stop is Missing.NOT_YET:
        return Judged(None, chain.visited)
    if isinstance(target, Missing):
        why = owners.why(start)
        return _unsupported(vpa, chain.visited, f"Cannot read targetRef. Reason: {start} {target.value}{why and f': {why}'}")
    return _found(vpa, target, chain, owners)


def _found(vpa: VpaChanged, target: Controller, chain: Chain, owners: Owners) -> Judged:
    if target.selector is None:
        return _unsupported(vpa, chain.visited, f"Cannot read targetRef. Reason: {target.key}: {target.fault}")
    last = chain.visited[-1]
    if not chain.whole and chain.stop is not None:
        why = owners.why(last)
        sentence = f"{last}, which owns {target.key}, {chain.stop.value}{why and f': {why}'}"
        return _unsupported(
            vpa, chain.visited, f"Error checking if target is a topmost well-known or scalable controller: {sentence}"
        )
    if chain.top != target.key:
        sentence = f"The target {target.key} has a parent controller, {chain.top}"
        return _unsupported(vpa, chain.visited, f"{sentence}, but it should point to a topmost well-known or scalable controller")
    return Judged(replace(vpa, selector=target.selector), chain.visited)


def _unsupported(vpa: VpaChanged, visited: tuple[Key, ...], sentence: str) -> Judged:
    return Judged(replace(vpa, unsupported=sentence), visited)
