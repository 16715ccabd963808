"""Recommendations against upstream's own: whole workloads, from samples to the texts of a status.

Each vector is a workload with a VPA. Their series are folded side by side, the i-th samples of all in one step, since half a
million single steps take a minute; within a vector one series follows another, as upstream's did.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from agents.engine.tables.row_table import RowTable
from agents.engine.turn import Recorded
from agents.logic.governing_policies import Policies
from agents.logic.usage.scrape_lookup import ScrapeLayer
from agents.logic.vertical import decision_builder
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.estimate_rules import PLACE
from agents.logic.vertical.recommended_amounts import EstimationRules, recommend
from agents.logic.vertical.usage_ingest import UsageIngest
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Place, PodName, Workload
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from streams.consumers.vpa_status_writer import container_resources
from tests.support.quantities import quantity
from tests.support.recommendation_vectors import amounts, policy
from tests.support.upstream_model import EPOCH, grown, settings
from tests.support.vectors import vectors

Json = dict[str, Any]

LONG = 10_000
"""A vector of more samples than this is folded beside others of its kind, and takes its time."""


def samples_of(vector: Json) -> int:
    return max((series["n"] for series in vector.get("inputs", {}).get("series", ())), default=0)


ALL = [
    pytest.param(*param.values, id=param.id, marks=[*param.marks, *[pytest.mark.slow] * (samples_of(param.values[0]) > LONG)])
    for param in vectors("recommendation")
]


def flags(inputs: Json) -> Any:
    told, most = inputs["recommender"], inputs["recommender"].get("global_max_allowed") or {}
    bound = policy({"containerName": "*", "maxAllowed": most}).max_allowed
    return settings(
        inputs["aggregation"],
        margin=told["recommendation_margin_fraction"],
        target_cpu_percentile=told["target_cpu_percentile"],
        lower_cpu_percentile=told["lower_bound_cpu_percentile"],
        upper_cpu_percentile=told["upper_bound_cpu_percentile"],
        target_memory_percentile=told["target_memory_percentile"],
        lower_memory_percentile=told["lower_bound_memory_percentile"],
        upper_memory_percentile=told["upper_bound_memory_percentile"],
        cpu_confidence=told["confidence_interval_cpu_s"],
        memory_confidence=told["confidence_interval_memory_s"],
        pod_minimum_cpu=told["pod_recommendation_min_cpu_millicores"] / 1000,
        pod_minimum_memory=told["pod_recommendation_min_memory_mb"] * 2**20,
        round_cpu=told["round_cpu_millicores"],
        round_memory=told["round_memory_bytes"],
        humanize_memory=told["humanize_memory"],
        integer_cpu=told["cpu_integer_post_processor"],
        per_vpa=told["feature_per_vpa_config"],
        maximum_cpu=bound.cpu,
        maximum_memory=bound.memory,
    )


def vpa(name: str, inputs: Json) -> VpaChanged:
    """A VPA for the Deployment `name`."""
    key, _, value = inputs["selector"].partition("=")
    entries = (inputs.get("resourcePolicy") or {}).get("containerPolicies", [])
    return VpaChanged(
        EPOCH, "c", "n", name, EPOCH, TargetRef("Deployment", name), (Requirement(key, Operator.IN, (value,)),),
        containers=tuple(map(policy, entries)), annotations=inputs.get("annotations") or {},
    )  # fmt: skip


def workload(name: str) -> Workload:
    return Workload("c", "n", "Deployment", name)


class Fleet:
    """Vectors of equal aggregation settings, each a workload."""

    def __init__(self, cases: list[Json]) -> None:
        first = cases[0]["inputs"]
        self.policies = Policies()
        self.intake = UsageIngest(flags(first), self.policies)
        self.usage = grown(self.intake, first["aggregation"]["histogram_bucket_size_growth"])
        for case in cases:
            self.policies.take(Recorded(vpa(case["id"], case["inputs"]), Place("ullage.policies.v1", 0, 0)))
            for pod, labels, container in case["inputs"].get("empty_containers") or []:
                self.pod(case["id"], pod, labels, container)
            for series in case["inputs"]["series"]:
                self.pod(case["id"], series["pod"], series["labels"], series["container"])
        self.fold([Samples(self, case) for case in cases])

    def pod(self, name: str, pod: str, labels: str, container: str) -> None:
        known = self.intake.pods.get(workload(name).key, pod)
        assert known is None or known.labels == labels
        seen = tuple(ContainerSeen(each) for each in dict.fromkeys((*(known.containers if known else ()), container)))
        told = dict(part.split("=", 1) for part in labels.split(","))
        self.intake.pod(PodChanged(EPOCH, workload(name), PodName("n", pod, pod), PodPhase.RUNNING, EPOCH, seen, labels=told))

    def fold(self, chains: list[Any]) -> None:
        """The k-th samples of all that have so many."""
        chains = sorted(chains, key=lambda chain: len(chain.rows), reverse=True)
        lengths = np.array([len(chain.rows) for chain in chains])
        shape = (len(chains), lengths[0])
        rows, cpu, memory, times = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for i, chain in enumerate(chains):
            n = lengths[i]
            rows[i, :n], cpu[i, :n], memory[i, :n], times[i, :n] = chain.rows, chain.cpu, chain.memory, chain.times
        aggregates = self.usage.containers["aggregate"][rows].astype(np.int64)
        kills: dict[int, list[Any]] = {}
        for chain in chains:
            for place, oom in chain.ooms:
                kills.setdefault(place, []).append(oom)
        for k in range(lengths[0] + 1):
            for oom in kills.get(k, ()):
                self.intake.kill(oom)
            n = int((lengths > k).sum())
            if n:
                layer = ScrapeLayer(None, rows[:n, k], aggregates[:n, k], [], [], apart=False)
                self.usage.fold(layer, cpu[:n, k], memory[:n, k], times[:n, k])


class Samples:
    """All samples of a vector in the order of upstream's, and which OOM kills come before which of them."""

    def __init__(self, fleet: Fleet, case: Json) -> None:
        self.rows: list[int] = []
        self.cpu: list[float] = []
        self.memory: list[float] = []
        self.times: list[float] = []
        self.ooms: list[Any] = []
        for series in case["inputs"]["series"]:
            start, n = len(self.rows), series["n"]
            times = [float(series["t0"] + i * series["step"]) for i in range(n)]
            for at, request in series.get("ooms", []):
                place = start + sum(1 for t in times if t <= at)
                when = EPOCH + timedelta(seconds=at)
                name = PodName("n", series["pod"], series["pod"])
                kill = ContainerOOMKilled(when, workload(case["id"]), name, series["container"], 1, request, None)
                self.ooms.append((place, kill))
            self.rows += [fleet.usage.see(workload(case["id"]).key, series["pod"], series["container"])] * n
            self.cpu += [used / 1000 for used in amounts(series, "cpu", series["seed"] * 2 + 1)]
            self.memory += list(amounts(series, "memory", series["seed"] * 2 + 2))
            self.times += times


def alike(vector: Json) -> str:
    """Vectors of one fleet have this in common."""
    inputs = vector["inputs"]
    return f"{inputs['aggregation']} {inputs['recommender']['feature_per_vpa_config']} {samples_of(vector) > LONG}"


@cache
def fleet(kind: str) -> Fleet:
    return Fleet([param.values[0] for param in ALL if alike(param.values[0]) == kind])


@pytest.mark.parametrize("vector", ALL)
def test_amounts_and_texts_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    run, chosen = fleet(alike(vector)), flags(inputs)
    members = ContainerIndex(run.usage, RowTable("said", {}), run.policies, chosen)
    key = workload(vector["id"]).key
    members.add([found for found in run.usage.aggregates.keys() if found[0] == key])  # noqa: SIM118  # rows, not a dict
    these = members.select(np.zeros(0, np.int64), [key])
    containers = [members.names[member][1] for member in these.members.tolist()]
    done = recommend(run.usage, members, these, EstimationRules(chosen))
    assert unrounded(done, containers) == (expected["amounts"] or {})
    numbers = decision_builder.UsageNumbers(done, np.arange(len(these.members)))
    found = [
        msgspec.to_builtins(container_resources(numbers.container(i, name), humanize=chosen.humanize_memory))
        for i, name in enumerate(containers)
    ]
    assert amounts_of(found) == amounts_of(expected["status"] or [])
    if not inputs.get("resourcePolicy"):  # a bound keeps its policy's unit in upstream: 300M for our 300000000
        assert found == (expected["status"] or [])


def amounts_of(status: Any) -> Any:
    """A status with amounts for texts."""
    if isinstance(status, list):
        return [amounts_of(each) for each in status]
    if isinstance(status, dict):
        return {key: quantity(value) if key in ("cpu", "memory") else amounts_of(value) for key, value in status.items()}
    return status


def unrounded(done: Any, names: Sequence[str]) -> Json:
    """The amounts before rounding and bounds, of controlled resources."""
    found: Json = {}
    for i, name in enumerate(names):
        resources = [r for r in ("cpu", "memory") if done.of.rules[i, PLACE[r]]]
        found[name] = {
            key: {resource: getattr(getattr(done, resource), bound)[i] for resource in resources}
            for key, bound in (("lowerBound", "lower"), ("target", "target"), ("upperBound", "upper"))
        }
    return found
