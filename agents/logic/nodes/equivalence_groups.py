"""Groups equal pods, so that one of them represents all."""

from collections.abc import Sequence

import numpy as np

from agents.logic.nodes.pod_scheduling_needs import SchedulablePod, controller
from agents.logic.nodes.scheduling.label_columns import Counts
from agents.logic.nodes.scheduling.scheduled_cluster import ShapeId

MOST_GROUPS = 10
"""Groups of one controller; its further pods that differ stand alone."""


def equivalence(pods: Sequence[SchedulablePod]) -> list[list[int]]:
    """The places of pods by group: those of one controller with equal labels and an equal spec.

    A pod without controller is alone. Source: BuildPodGroups in core/scaleup/equivalence/groups.go.
    """
    groups: list[list[int]] = []
    known: dict[str, list[int]] = {}
    for place, pod in enumerate(pods):
        mine = controller(pod.nature.owners)
        if mine is None or mine.kind == "DaemonSet":
            groups.append([place])
            continue
        siblings = known.setdefault(mine.uid or f"{pod.namespace}/{mine.kind}/{mine.name}", [])
        alike = next((one for one in siblings if pods[groups[one][0]].shape == pod.shape), None)
        if alike is not None:
            groups[alike].append(place)
        else:
            if len(siblings) < MOST_GROUPS:
                siblings.append(len(groups))
            groups.append([place])
    return groups


def by_shape(shapes: Counts) -> list[tuple[ShapeId, Counts]]:
    """Each shape with the places of its pods, in the order in which they first appear.

    Pods that upstream separates by controller are counted together where only the shape matters.
    """
    order = np.argsort(shapes, kind="stable")
    found, starts = np.unique(shapes[order], return_index=True)
    places = np.split(order, starts[1:])
    return sorted(zip(found.tolist(), places, strict=True), key=lambda one: int(one[1][0])) if len(shapes) else []
