"""Sets the taint that makes the scheduler prefer other nodes on a node that may go soon, and removes it again.

A node that is already being removed, by us or others, is left alone. The taint is upstream's, so both understand it. Source:
DeletionCandidateTaint in utils/taints/taints.go.
"""

from datetime import datetime

from schemas.decisions.node_updates import SoftTaintPlanned
from schemas.outcomes import OutcomeDetail, Result
from schemas.well_known_labels import DELETION_CANDIDATE
from streams.clients.kube.json_objects import Json
from streams.clients.kube.node_drain_client import DrainableNode, NodeDrainClient
from streams.consumers.executing.act_permit import ActPermit
from streams.consumers.executing.handler import HandlerResult
from streams.consumers.nodes import removal_marks

EFFECT = "PreferNoSchedule"


def change(nodes: NodeDrainClient, plan: SoftTaintPlanned, permit: ActPermit, now: datetime) -> HandlerResult | None:
    """Look, ask the permit, then the API server; `now` is real time. Raises TryAgain and GiveUp."""
    node = nodes.node(plan.node)
    if node is None or node.uid != plan.node_uid:
        return _moved(f"node '{plan.node}' with uid '{plan.node_uid}' is gone")
    if removal_marks.leaves(node):
        return _moved(f"node '{plan.node}' is being taken away")
    if _tainted(node) == plan.tainted:
        return _shown(node)
    others: list[Json] = [taint for taint in node.taints if taint.get("key") != DELETION_CANDIDATE]
    ours: list[Json] = [{"key": DELETION_CANDIDATE, "value": str(int(now.timestamp())), "effect": EFFECT}] if plan.tainted else []
    permit.check("tainting node", plan.node)
    nodes.change(node, metadata={}, spec={"taints": [*others, *ours] or None})
    return None


def look(nodes: NodeDrainClient, plan: SoftTaintPlanned) -> HandlerResult | str:
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
