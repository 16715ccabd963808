"""What the real scheduler reads of pods and nodes, from its own source: each field is read here, too, or the page speaks of it.

The source is that of the control plane that these tests run; it lies in Go's cache since it was built.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from streams.clients.kube.scheduling_objects import (
    DetailedNodeSpec,
    DetailedNodeStatus,
    PodAffinityTerm,
    ScheduledPodSpec,
    SelectorTermExpression,
    TaintObject,
    TolerationObject,
    TopologySpreadObject,
)
from tests.controlplane import build

PAGE = Path(__file__).parents[2] / "docs" / "nodes.md"
_ELSEWHERE = {"ephemeralContainers"}
"""The scheduler's library goes through them and takes nothing of them: they request nothing."""


@pytest.fixture(scope="module")
def kubernetes() -> Path:
    """The source of Kubernetes."""
    folder = build.source_of_kubernetes()
    if not folder.is_dir():
        pytest.skip(f"the source of Kubernetes {build.VERSION} is not at '{folder}': it comes with a build of the control plane")
    return folder


@pytest.fixture(scope="module")
def scheduler(kubernetes: Path) -> str:
    """All of the scheduler's plugins, and what they use of its own."""
    places = ("pkg/scheduler/framework", "pkg/scheduler/util")
    files = [file for place in places for file in (kubernetes / place).glob("**/*.go")]
    files = [file for file in files if not file.name.endswith("_test.go") and "testing" not in file.parts]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def page() -> str:
    return PAGE.read_text(encoding="utf-8").split("## What a pod asks for")[1].split("\n## ")[0]


def fields(kubernetes: Path, kind: str) -> Iterator[tuple[str, str]]:
    """The fields of a type of the API: the name in Go, and the one on the wire."""
    types = kubernetes.parent / f"api@v0.{build.VERSION.split('.', 1)[1]}" / "core" / "v1" / "types.go"
    text = types.read_text(encoding="utf-8")
    body = text.split(f"\ntype {kind} struct {{\n", 1)[1].split("\n}\n", 1)[0]
    yield from re.findall(r"^\t(\w+) +\S+ +`json:\"(\w+)", body, re.MULTILINE)


def read_here(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_the_page_has_each_plugin_that_is_on_or_may_be(kubernetes: Path) -> None:
    defaults = (kubernetes / "pkg/scheduler/apis/config/v1/default_plugins.go").read_text(encoding="utf-8")
    plugins = set(re.findall(r"Name: +names\.(\w+)", defaults))
    assert len(plugins) > 15
    first = "\n".join(row.split("|")[1] for row in page().splitlines() if row.startswith("| "))
    assert plugins == {name for name in plugins if re.search(rf"\b{name}\b", first)}


@pytest.mark.parametrize(
    ("kind", "holder", "structs"),
    [
        ("PodSpec", "Spec", (ScheduledPodSpec,)),
        ("NodeSpec", "Spec", (DetailedNodeSpec,)),
        ("NodeStatus", "Status", (DetailedNodeStatus,)),
    ],
)
def test_each_field_that_the_scheduler_reads_is_read_or_spoken_of(
    kubernetes: Path, scheduler: str, kind: str, holder: str, structs: tuple[type[msgspec.Struct], ...]
) -> None:
    who = "[pP]od" if kind == "PodSpec" else r"[nN]ode(?:\(\))?"
    read = set(re.findall(rf"\b{who}\.{holder}\.(\w+)", scheduler))
    used = {wire for name, wire in fields(kubernetes, kind) if name in read}
    assert used
    here = {name for struct in structs for name in read_here(struct)}
    assert used - here - _ELSEWHERE <= set(re.findall(r"`(\w+)`", page()))


@pytest.mark.parametrize(
    ("kind", "struct"),
    [
        ("Toleration", TolerationObject),
        ("Taint", TaintObject),
        ("PodAffinityTerm", PodAffinityTerm),
        ("TopologySpreadConstraint", TopologySpreadObject),
        ("NodeSelectorRequirement", SelectorTermExpression),
    ],
)
def test_each_field_of_a_rule_is_read_or_spoken_of(kubernetes: Path, kind: str, struct: type[msgspec.Struct]) -> None:
    whole = {wire for _name, wire in fields(kubernetes, kind)}
    assert whole
    assert whole - read_here(struct) - {"timeAdded"} <= set(re.findall(r"`(\w+)`", page()))
