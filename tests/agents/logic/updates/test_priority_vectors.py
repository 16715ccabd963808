"""How far a pod is from its recommendation, against upstream's own."""

from typing import Any

import pytest

from agents.logic.updates.request_difference import difference
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ContainerSeen
from tests.support.quantities import amounts
from tests.support.vectors import close, vectors

Json = dict[str, Any]


OBSERVED = "vpaObservedContainers"


def recommended(vpa: Json) -> Any:
    found = (vpa.get("status", {}).get("recommendation") or {}).get("containerRecommendations") or []
    return {
        c["containerName"]: ContainerRecommendation(
            c["containerName"],
            amounts(c.get("lowerBound")),
            amounts(c.get("target")),
            amounts(c.get("upperBound")),
            amounts(c.get("target")),
        )
        for c in found
    }


def seen(pod: Any) -> Any:
    """Containers as they stand; a status that names resources stands for the whole of them."""
    told = {s["name"]: s["resources"] for s in pod.get("status", {}).get("containerStatuses", []) if "resources" in s}
    containers = pod["spec"]["containers"]
    return [
        ContainerSeen(c["name"], amounts((told.get(c["name"], c.get("resources")) or {}).get("requests"))) for c in containers
    ]


@pytest.mark.parametrize("vector", vectors("updater_priority"))
def test_differences_are_upstreams(vector: Json) -> None:
    pod, expected = vector["inputs"]["pod"], vector["expected"]["priority"]
    if OBSERVED in pod["metadata"].get("annotations", {}):
        pytest.skip("pods carry no annotations in our facts yet")
    found = difference(seen(pod), recommended(vector["inputs"]["vpa"]))
    assert (found.outside, found.scale_up) == (expected["outside_recommended_range"], expected["scale_up"])
    assert close(found.share, expected["resource_diff"])
