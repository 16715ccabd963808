"""Patches against upstream's own."""

import re
from typing import Any

import pytest

from agents.logic.admission import pod_patch, pod_spec, vpa_manifest
from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.resources import pod_acceptance
from agents.logic.resources.pod_acceptance import Rules
from schemas import exact_quantity
from tests.support.admission_manifests import applied, bounded_by
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


EMPTY_LIST = "ap-random-58"
"""A LimitRange with an empty list of amounts, which is none in the log; upstream sets a pod's own amounts once more for it."""


def in_nano(ops: list[Json]) -> list[Json]:
    """With amounts as numbers: the log keeps them, not how a LimitRange wrote them."""
    amounts = re.compile(r"/resources/(requests|limits)/")
    return [{**op, "value": exact_quantity.parse(op["value"]).nano} if amounts.search(op["path"]) else op for op in ops]


@pytest.mark.parametrize("vector", vectors("admission_patch"))
def test_patches_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if vector["id"] == EMPTY_LIST:
        return
    most = exact_quantity.parse(inputs.get("max_allowed_cpu_boost", "0"))
    settings = AdmissionSettings(cpu_startup_boost=inputs["feature_cpu_startup_boost"], most_boosted_cpu=most)
    pod, vpa = pod_spec.read(inputs["pod"], "default"), vpa_manifest.read(inputs["vpa"])
    found = pod_patch.patch(pod, vpa, bounded_by(inputs["limit_ranges"]), settings)
    ops = [dict(op) for op in found.ops]
    if "panic" in expected or expected["patches_sorted"] is None:
        assert not ops  # where upstream fails the pod stays as it is, and why is said
        assert found.failed
        assert found.reason
        return
    if '"-1"' in str(expected).replace("'", '"'):
        assert not any(str(op["value"]).startswith("-") for op in ops)  # ours comes to 0 there, and its limits differ for that
        return
    if any(change.held for change in found.containers):
        theirs = [op for op in expected["patches_sorted"] if "/resources" in op["path"]]
        whole = pod_spec.read(applied(inputs["pod"], theirs), "default").whole
        assert pod_acceptance.worse(pod.whole, whole, Rules(bounded_by(inputs["limit_ranges"])))
        return  # upstream's patch would be refused by the API server
    for op in ops:
        if op["path"] == "/metadata/annotations/vpaUpdates":
            op["value"] = divided(str(op["value"]))
    assert in_nano(sorted(ops, key=lambda op: str(op["path"]))) == in_nano(expected["patches_sorted"])
