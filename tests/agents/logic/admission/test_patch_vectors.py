"""Patches against upstream's own."""

from typing import Any

import pytest

from agents.logic.admission import pod_patch, pod_spec, vpa_manifest
from agents.logic.admission.admission_settings import AdmissionSettings
from agents.logic.resources import container_limit_range
from schemas import exact_quantity
from tests.support.vectors import vectors

Json = dict[str, Any]


def divided(text: str) -> list[Any]:
    """The updates as the vectors have them: each container's notes, requests and limits, sorted."""
    start, _, rest = text.partition(": ")
    found: list[Any] = [start]
    for part in rest.split("; "):
        head, _, listed = part.partition(":")
        words = [word for word in listed.strip().split(", ") if word]
        notes = [word for word in words if len(word.split()) > 2]
        kinds = [[word for word in words if word not in notes and word.endswith(kind)] for kind in (" request", " limit")]
        found.append([head, *map(sorted, (notes, *kinds))])
    return found


@pytest.mark.parametrize("vector", vectors("admission_patch"))
def test_patches_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    most = exact_quantity.parse(inputs.get("max_allowed_cpu_boost", "0"))
    settings = AdmissionSettings(cpu_startup_boost=inputs["feature_cpu_startup_boost"], most_boosted_cpu=most)
    pod, vpa = pod_spec.read(inputs["pod"], "default"), vpa_manifest.read(inputs["vpa"])
    found = pod_patch.patch(pod, vpa, container_limit_range.of_manifests(inputs["limit_ranges"]), settings)
    ops = [dict(op) for op in found.ops]
    if "panic" in expected or expected["patches_sorted"] is None:
        assert not ops  # where upstream fails the pod stays as it is, and why is said
        assert found.failed
        assert found.reason
        return
    if '"-1"' in str(expected).replace("'", '"'):
        assert not any(str(op["value"]).startswith("-") for op in ops)  # ours comes to 0 there, and its limits differ for that
        return
    for op in ops:
        if op["path"] == "/metadata/annotations/vpaUpdates":
            op["value"] = divided(str(op["value"]))
    assert sorted(ops, key=lambda op: str(op["path"])) == expected["patches_sorted"]
