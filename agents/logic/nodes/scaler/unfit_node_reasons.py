"""What keeps waiting pods off a new node of a group, in a sentence that names the node that taught it."""

from collections.abc import Iterator
from itertools import islice

from agents.logic.nodes.cluster import group_patterns
from agents.logic.nodes.cluster.group_patterns import amount_text
from agents.logic.nodes.cluster.scaler_table_values import LearnedPattern
from agents.logic.nodes.growth.node_estimator import GroupTemplate
from agents.logic.nodes.scheduling.node_columns import tolerates
from agents.logic.nodes.scheduling.pod_shapes import PodShape
from agents.logic.nodes.scheduling.scheduler_filters import FilterFailure
from schemas.pod_requests import PODS

MOST = 3
"""Things that one sentence says a node lacks."""


def of_group(template: GroupTemplate | None, learned: LearnedPattern | None, shape: PodShape, failure: FilterFailure) -> str:
    """What a new node of a group lacks, and how the node that taught it differed from what was expected."""
    if template is None:
        return ", ".join(failure.reasons)
    sentence = of(template, shape, failure)
    differs = [] if learned is None else [*islice(group_patterns.differences(learned), group_patterns.MOST_DIFFERENCES)]
    return f"{sentence} ({'; '.join(differs)})" if differs else sentence


def of(template: GroupTemplate, shape: PodShape, failure: FilterFailure) -> str:
    """What a new node of the group lacks for such a pod."""
    who = f"node '{template.like}'" if template.like else "a new node"
    lacks = list(_lacks(template, shape, failure))[:MOST] or [f"does not take them: {', '.join(failure.reasons)}"]
    return f"{who} {' and '.join(lacks)}"


def _lacks(template: GroupTemplate, shape: PodShape, failure: FilterFailure) -> Iterator[str]:
    match failure.plugin:
        case "NodeAffinity":
            yield from _labels(template, shape)
        case "NodeResourcesFit":
            yield from _amounts(template, shape)
        case "TaintToleration":
            untolerated = [taint for taint in template.node.taints if not tolerates(shape.tolerations, (taint,))]
            yield from (f"has the taint '{taint.key}={taint.value}:{taint.effect}'" for taint in untolerated)
        case "VolumeBinding":
            yield "lies where the pods' volumes cannot be"
        # The words of any other filter say enough by themselves.
        case _:
            pass


def _labels(template: GroupTemplate, shape: PodShape) -> Iterator[str]:
    labels = dict(template.node.labels)
    wrong = [(key, value) for key, value in shape.node_selector if labels.get(key) != value]
    for key, value in wrong:
        here = f", but '{key}={labels[key]}'" if key in labels else ""
        yield f"has no label '{key}={value}'{here}"
    if not wrong:
        unmet = [
            expression.key
            for term in shape.node_terms or ()
            for expression in term.expressions
            if not expression.accepts(labels.get(expression.key))
        ]
        named = ", ".join(f"'{key}'" for key in dict.fromkeys(unmet))
        yield (
            f"lies where the pods may not run: their node affinity asks for other values of {named}"
            if named
            else ("meets no term of the pods' node affinity")
        )


def _amounts(template: GroupTemplate, shape: PodShape) -> Iterator[str]:
    # Each pod takes one of the node's places for pods, too.
    for name, wanted in (*shape.requests, (PODS, 1)):
        offered = template.node.allocatable.get(name, 0)
        taken = len(template.pods) if name == PODS else sum(pod.request(name) for pod in template.pods)
        if wanted > offered - taken:
            own = f", of which its own pods take {amount_text(name, taken)}" if taken else ""
            yield f"has {amount_text(name, offered)} {name}{own}, and each of the pods asks for {amount_text(name, wanted)}"
