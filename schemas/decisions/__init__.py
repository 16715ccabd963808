"""Decisions: what an agent concluded, with the numbers it rests on.

`because` holds all that a person needs to redo the sum: inputs, settings, policy version and every limit that changed it.
"""

from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleRefused, ScaleUpPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.decisions.vpa_conditions import VpaConditionsDecided

NodeUpdate = ScaleUpPlanned | NodeRemovalPlanned | ScaleRefused
Decision = RequestsRecommended | ResizePlanned | EvictionPlanned | UpdateRefused | VpaConditionsDecided | NodeUpdate
