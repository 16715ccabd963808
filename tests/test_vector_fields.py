"""Every field, flag and step of upstream's vectors is one that our harness reads: one that it passes over proves nothing."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
GOLDEN = Path(os.environ.get("ULLAGE_SHARED", TESTS.parents[1] / "shared")) / "golden"
OBJECTS = {"ehpa", "ehpas", "limit_ranges", "pod", "pods", "spec", "vpa"}
"""Manifests of Kubernetes, which the product's own parsers read."""
NAMES = {"annotations", "labels", "selector", "tags", "overhead", "groups"}
"""Their keys are names of somebody's choice."""
PASSED_OVER = {"aws_calls", "aws_provider_id"}
"""Files of vectors that no test reads: calls and names of upstream's provider of AWS, which has no twin here."""
NOTES = {"note", "explicit_count", "configmap_without_key", "sum_cpu", "sum_memory"}
"""For people: remarks, check sums, and what a missing `priorities_yaml` says as well."""


def fields(family: str, vector: dict[str, Any]) -> Iterator[str]:
    """The names of the fields of a vector's inputs, and of what lies in them."""
    for name, value in vector.get("inputs", vector.get("input", vector)).items():
        yield name
        if name in NAMES or (name in OBJECTS and family in ("vpa", "ehpa")):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from part


@pytest.mark.parametrize("family", ["vpa", "ehpa", "ca"])
def test_the_harness_reads_every_field_of_the_vectors(family: str) -> None:
    files = sorted((GOLDEN / family).glob("*.json"))
    if not files:
        pytest.skip(f"no vectors at '{GOLDEN / family}'; set ULLAGE_SHARED")
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__))
    read = {word for text in texts for word in re.findall(r"[\"']([\w.-]+)[\"']", text)}
    assert {file.stem for file in files if file.stem not in read} == PASSED_OVER & {file.stem for file in files}
    unread = set()
    for file in files:
        if file.stem in PASSED_OVER:
            continue
        found = json.loads(file.read_text(encoding="utf-8"))
        for vector in found["vectors"] if isinstance(found, dict) else found:
            unread |= {f"{file.stem}: {name}" for name in fields(family, vector) if name not in read | NOTES}
    assert unread == set()
