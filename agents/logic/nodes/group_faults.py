"""Sentences about a node group's settings that contradict each other or cannot be read. The group goes on without them."""

from collections.abc import Iterator

from agents.logic.nodes.aws import group_options
from schemas.facts.node_groups import NodeGroupSeen
from schemas.well_known_labels import OPTION_TAG

MOST = 20
"""Faults of one group that its sentence names."""
_SHOWN = 80


def sentence(fact: NodeGroupSeen) -> str:
    """All faults of a group; empty for none."""
    return "; ".join([*_faults(fact)][:MOST])


def _faults(fact: NodeGroupSeen) -> Iterator[str]:
    if fact.least > fact.most:
        yield f"its minimum {fact.least} is above its maximum {fact.most}, which counts for both"
    for name, text in group_options.unread(fact.options).items():
        yield f"tag '{OPTION_TAG}{name[:_SHOWN]}' says '{text[:_SHOWN]}', which means nothing, so the default holds"
    yield from () if fact.template is None else fact.template.unread
