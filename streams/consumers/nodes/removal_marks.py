"""The marks on a node that is being removed: upstream's taint, which tells others to leave it alone, and our own label.

The node itself carries everything that a restart must know about its removal: since when (the taint's value, in seconds since the
epoch), for which decision (a label, which also finds such nodes), and whether we cordoned it. A soft taint, upstream's too, makes
the scheduler prefer other nodes to one that may go soon.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from schemas.decisions.node_updates import SoftTaintPlanned
from schemas.outcomes import OutcomeDetail, Result
from schemas.well_known_labels import DELETION_CANDIDATE, TO_BE_DELETED, is_leaving
from streams.clients.kube.json_objects import Json
from streams.clients.kube.node_drain_client import DrainableNode, NodeDrainClient
from streams.consumers.executing.handler import ActPermit, HandlerResult

MARK = "ullage.internal/removal"
"""The key of a label and of a taint, both with the decision's digest as their value."""
CORDONED = "ullage.internal/cordoned"
EFFECT = "NoSchedule"


@dataclass(frozen=True, slots=True)
class RemovalMark:
    """A node is being removed by the decision with this digest, since that time; None where somebody took its taint off."""

    digest: str
    since: datetime | None


def digest(decision: str) -> str:
    """The digest that names a decision in a label."""
    return hashlib.sha256(decision.encode()).hexdigest()[:32]  # a label's value has at most 63 characters, and no slash


def read(node: DrainableNode) -> RemovalMark | None:
    """Our mark on a node, or what somebody left of it; None when there is none."""
    label = node.labels.get(MARK) or next((str(taint.get("value")) for taint in node.taints if taint.get("key") == MARK), None)
    # A cordon of ours without a mark is of no decision any more.
    left = "" if label is None and CORDONED in node.annotations else label
    return None if left is None else RemovalMark(left, _since(node))


def _since(node: DrainableNode) -> datetime | None:
    """Since when a node is being removed by its taint; None without one."""
    since = next((str(taint.get("value") or "") for taint in node.taints if taint.get("key") == TO_BE_DELETED), None)
    if since is None:
        return None
    # A time that somebody spoiled counts as long past, so that the removal comes to its end and does not hang.
    return datetime.fromtimestamp(int(since) if since.isdecimal() and len(since) < len("99999999999") else 0, UTC)


def foreign(node: DrainableNode, now: datetime) -> bool:
    """Whether somebody else, such as upstream's autoscaler, is removing the node."""
    since = None if MARK in node.labels else _since(node)
    # An autoscaler that ended in the middle leaves its taint, and nobody would ever remove the node.
    return since is not None and is_leaving(since.timestamp(), now.timestamp())


def leaves(node: DrainableNode, now: datetime) -> bool:
    """Whether anybody, including us, is removing the node."""
    return MARK in node.labels or foreign(node, now)


def added(node: DrainableNode, decision: str, *, at: datetime, cordon: bool) -> Mapping[str, Json]:
    """What puts our marks on a node, as `metadata` and `spec`."""
    name = digest(decision)
    ours = (
        {"key": TO_BE_DELETED, "value": str(int(at.timestamp())), "effect": EFFECT},
        {"key": MARK, "value": name, "effect": EFFECT},
    )
    metadata: Json = {"labels": {MARK: name}}
    spec: Json = {"taints": [*_others(node), *ours]}
    if cordon and not node.unschedulable:  # a node that others cordoned stays cordoned when the marks go
        metadata["annotations"], spec["unschedulable"] = {CORDONED: "true"}, True
    return {"metadata": metadata, "spec": spec}


def removed(node: DrainableNode) -> Mapping[str, Json]:
    """What takes our marks off a node again, as `metadata` and `spec`."""
    spec: Json = {"taints": _others(node) or None}
    if node.annotations.get(CORDONED) == "true":
        spec["unschedulable"] = None
    return {"metadata": {"labels": {MARK: None}, "annotations": {CORDONED: None}}, "spec": spec}


def _others(node: DrainableNode) -> list[Json]:
    """Taints that are not ours; the cordon's own comes and goes with the cordon."""
    ours = {TO_BE_DELETED, MARK} | ({"node.kubernetes.io/unschedulable"} if node.annotations.get(CORDONED) == "true" else set())
    return [taint for taint in node.taints if taint.get("key") not in ours]


SOFT_EFFECT = "PreferNoSchedule"


def change_soft_taint(nodes: NodeDrainClient, plan: SoftTaintPlanned, permit: ActPermit, now: datetime) -> HandlerResult | None:
    """Look, ask the permit, then the API server; `now` is real time. Raises TryAgain and GiveUp."""
    node = nodes.node(plan.node)
    if node is None or node.uid != plan.node_uid:
        return _moved(f"node '{plan.node}' with uid '{plan.node_uid}' is gone")
    if leaves(node, now):
        return _moved(f"node '{plan.node}' is being taken away")
    if _tainted(node) == plan.tainted:
        return _shown(node)
    others: list[Json] = [taint for taint in node.taints if taint.get("key") != DELETION_CANDIDATE]
    ours: list[Json] = (
        [{"key": DELETION_CANDIDATE, "value": str(int(now.timestamp())), "effect": SOFT_EFFECT}] if plan.tainted else []
    )
    permit.check("tainting node", plan.node)
    nodes.change(node, metadata={}, spec={"taints": [*others, *ours] or None})
    return None


def look_at_soft_taint(nodes: NodeDrainClient, plan: SoftTaintPlanned) -> HandlerResult | str:
    """The result for a node that is as decided; for any other, what it shows. Raises TryAgain and GiveUp."""
    node = nodes.node(plan.node)
    if node is None or node.uid != plan.node_uid:
        return f"node '{plan.node}' with uid '{plan.node_uid}' is gone"
    shown = _shown(node)
    return shown if _tainted(node) == plan.tainted else shown.reason


def _tainted(node: DrainableNode) -> bool:
    return any(taint.get("key") == DELETION_CANDIDATE for taint in node.taints)


def _shown(node: DrainableNode) -> HandlerResult:
    has = "has" if _tainted(node) else "does not have"
    return HandlerResult(Result.DONE, f"node '{node.name}' {has} the taint '{DELETION_CANDIDATE}'", OutcomeDetail.ALREADY_DONE)


def _moved(what: str) -> HandlerResult:
    return HandlerResult(Result.REFUSED, f"it moved: {what}", OutcomeDetail.MOVED)
