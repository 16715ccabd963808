"""What holds whatever happens: pods come, go and change labels, VPAs and policies change, checkpoints and OOM kills arrive.

A resumed snapshot goes on as if it had never stopped, checkpoints written piece by piece are the whole state, other workloads in
the partition change nothing, and neither does the order of containers.
"""

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.logic.adaptive import adaptive_policy
from agents.logic.vertical.recommended_amounts import order_columns
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, SavedHistogram
from schemas.names import Amounts, PodName, Workload
from schemas.policies.vertical import ContainerMode, ContainerPolicy, Tuning, VerticalPolicyChanged
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged, VpaRemoved
from tests.support.cluster_events import GIB, MINUTE, START, scrape, turn, when

Json = dict[str, Any]

OWNERS = [Workload("demo", "web", "Deployment", name) for name in ("api", "cart")]
PODS = ("a", "b")
NAMES = ("app", "side")

owners, pods, names = st.sampled_from(OWNERS), st.sampled_from(PODS), st.sampled_from(NAMES)
LABELS = st.sampled_from([{}, {"app": "x"}, {"app": "x", "hash": "1"}, {"app": "y"}])
ENTRIES = st.sampled_from(
    [
        ContainerPolicy(),
        ContainerPolicy("side", mode=ContainerMode.OFF),
        ContainerPolicy("app", Amounts(0.5, None), Amounts(None, GIB), controlled_resources=("cpu",)),
        ContainerPolicy(oom_ratio=2.0, memory_window=3600.0, memory_windows=2),
        ContainerPolicy(tuning=Tuning(margin=0.5, cpu_half_life=7200.0, memory_half_life=1800.0)),
    ]
)
SELECTORS = st.sampled_from([(), (Requirement("app", Operator.IN, ("x",)),), (Requirement("app", Operator.NOT_IN, ("y",)),)])


def vpa(owner: Workload, selector: Any, entry: Any, generation: int, recommenders: Any) -> VpaChanged:
    return VpaChanged(
        when(START), "demo", "web", owner.name, when(START), TargetRef("Deployment", owner.name), selector,
        generation=generation, containers=(entry,), recommenders=recommenders,
    )  # fmt: skip


def seen(owner: Workload, pod: str, labels: Any, phase: Any, sides: int) -> PodChanged:
    containers = tuple(ContainerSeen(name) for name in NAMES[: 2 - sides])
    inits = tuple(ContainerSeen(name) for name in NAMES[2 - sides :])
    uid = PodName("web", pod, "u")
    return PodChanged(when(START), owner, uid, phase, when(START), containers, labels=labels, init_containers=inits)


def seed(owner: Workload, name: str, count: int) -> CheckpointSeen:
    kept = SavedHistogram(START / 1000, 3.5, {"3": 10_000, "9": 500})
    return CheckpointSeen(when(START), owner, owner.name, name, "v3", START / 1000 - count * 60, START / 1000, count, kept, kept)


POLICY = st.one_of(
    st.builds(vpa, owners, SELECTORS, ENTRIES, st.integers(1, 3), st.sampled_from([(), (), ("other",)])),
    st.builds(lambda owner: VpaRemoved(when(START), "demo", "web", owner.name), owners),
    st.builds(lambda entry: VerticalPolicyChanged(when(START), "demo/*", "1", containers=(entry,)), ENTRIES),
)
FACT = st.one_of(
    st.builds(seen, owners, pods, LABELS, st.sampled_from(PodPhase), st.integers(0, 1)),
    st.builds(lambda owner, pod: PodDeleted(when(START), owner, PodName("web", pod, "u")), owners, pods),
    st.builds(seed, owners, names, st.integers(1, 5000)),
)
NODE = st.one_of(
    st.builds(
        lambda name, cpu, memory: NodeChanged(when(START), "demo", name, Amounts(cpu, memory)),
        st.sampled_from("abc"),
        st.sampled_from([None, 0.1, 0.5, 4.0]),
        st.sampled_from([GIB // 4, GIB]),
    ),
    st.builds(lambda name: NodeRemoved(when(START), "demo", name), st.sampled_from("abc")),
    st.builds(
        lambda minute, sees: SourceReported(when(START + minute * MINUTE), "demo", "kube", sees, 600.0),  # type: ignore[arg-type]  # units
        st.integers(0, 3000),
        st.sampled_from([("oom-events",), ()]),
    ),
)
KILL = st.tuples(owners, pods, names)
SCRAPE = st.lists(
    st.tuples(
        owners.map(lambda owner: owner.key),
        pods,
        names,
        st.one_of(st.just(math.nan), st.floats(0, 40)),
        st.one_of(st.just(math.nan), st.floats(0, 5e10)),
    ),
    unique_by=lambda row: row[:3],
    max_size=6,
)
STEP = st.tuples(
    st.sampled_from([1, 5, 70, 1500, 12_000]),
    st.lists(POLICY, max_size=2),
    st.lists(FACT, max_size=4),
    st.lists(KILL, max_size=1),
    SCRAPE,
    st.lists(NODE, max_size=2),
)
STEPS = st.lists(STEP, min_size=1, max_size=9)
SETTINGS = st.sampled_from(
    [
        {},
        {"unknown_pods": False},
        {"memory_saver": True},
        {"recommend_unseen": True},
        {"node_cap": True},
        {"policy": "adaptive"},
        {"shadow_policy": "adaptive"},
    ]
)
QUICK = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def open_stage(changed: Json) -> Any:
    return Recommender(replace(VerticalSettings(bounds_step=0.0), **changed), 0, {"adaptive": adaptive_policy.POLICY}.get)


def turns(steps: list[Any], only: Any = None, order: Any = lambda rows: rows) -> Any:
    number = START
    for minutes, policies, facts, kills, rows, nodes in steps:
        number += minutes * MINUTE
        killed = [
            ContainerOOMKilled(when(number), owner, PodName("web", pod, "u"), name, 1, GIB, None)  # type: ignore[arg-type]  # units
            for owner, pod, name in kills
        ]
        yield turn(
            number,
            policies=policies,
            cluster_changes=nodes,
            pod_changes=[fact for fact in facts if only in (None, fact.workload)],
            oom_events=[kill for kill in killed if only in (None, kill.workload)],
            pod_metrics=[scrape(number, order([row for row in rows if only is None or row[0] == only.key]))],
        )


def dumped(stage: Any) -> Any:
    return {chunk: stage.dump(chunk) for chunk in stage.chunks()}


@QUICK
@given(STEPS, SETTINGS, st.integers(0, 9))
def test_a_resumed_snapshot_is_as_if_it_had_never_stopped(steps: list[Any], changed: Json, cut: int) -> None:
    through, stopped = open_stage(changed), open_stage(changed)
    for place, each in enumerate(turns(steps)):
        if place == cut:
            fresh = open_stage(changed)
            for chunk in sorted(stopped.chunks()):
                fresh.load(chunk, stopped.dump(chunk))
            stopped = fresh
        assert list(through.step(each)) == list(stopped.step(each))
        assert dumped(through) == dumped(stopped)


@QUICK
@given(STEPS, SETTINGS)
def test_what_a_checkpoint_writes_piece_by_piece_is_the_whole_state(steps: list[Any], changed: Json) -> None:
    stage, written = open_stage(changed), {}
    for each in turns(steps):
        stage.step(each)
        written |= {chunk: stage.dump(chunk) for chunk in stage.take_dirty()}
    assert written == dumped(stage)


@QUICK
@given(STEPS, SETTINGS)
@example(  # the first sample of all, of which adaptive knows the memory alone
    [
        (1, [], [], [], [(OWNERS[0].key, "a", "app", math.nan, math.nan)], []),
        (1, [], [], [], [(OWNERS[0].key, "a", "app", math.nan, math.nan), (OWNERS[1].key, "a", "app", math.nan, 1.0)], []),
    ],
    {"policy": "adaptive"},
)
def test_other_workloads_in_the_partition_change_nothing(steps: list[Any], changed: Json) -> None:
    together = open_stage(changed)
    said = [[d.event for d in together.step(each)] for each in turns(steps)]
    for owner in OWNERS:
        alone = open_stage(changed)
        mine = [[d.event for d in alone.step(each)] for each in turns(steps, only=owner)]
        assert [unplaced(events) for events in mine] == [
            unplaced([event for event in events if event.workload == owner]) for events in said
        ]


def unplaced(events: list[Any]) -> Any:
    """Decisions without the places of records, which differ where records of others are left out."""

    def bare(value: Any) -> Any:
        return {k: bare(v) for k, v in value.items() if k != "place"} if isinstance(value, dict) else value

    return [(event.id, event.containers, bare(getattr(event, "because", {}))) for event in events]


@QUICK
@given(STEPS, SETTINGS, st.randoms(use_true_random=False))
def test_the_order_of_containers_in_a_scrape_changes_nothing(steps: list[Any], changed: Json, chance: random.Random) -> None:
    one, other = open_stage(changed), open_stage(changed)
    mixed = turns(steps, order=lambda rows: chance.sample(rows, len(rows)))
    for a, b in zip(turns(steps), mixed, strict=True):
        assert list(one.step(a)) == list(other.step(b))
    assert dumped(one) == dumped(other)


ODD = st.sampled_from(
    [
        {"node_cap": True},
        {"target_cpu_percentile": 0.97, "node_cap": True},
        {"lower_memory_percentile": 0.99, "upper_cpu_percentile": 0.1},
        {"integer_cpu": True, "round_memory": 1 << 20, "maximum_cpu": 0.3},
    ]
)
OWN = ContainerPolicy(tuning=Tuning(lower_cpu_percentile=0.9, target_cpu_percentile=0.2, upper_memory_percentile=0.3))


@QUICK
@given(STEPS, ODD, st.sampled_from([ContainerPolicy(), OWN]))
def test_every_target_lies_between_its_bounds(steps: list[Any], changed: Json, entry: ContainerPolicy) -> None:
    stage = open_stage(changed)
    policy = VerticalPolicyChanged(when(START), "*", "1", containers=(entry,))
    said = [decided.event for decided in stage.step(turn(START, policies=[policy]))]
    said += [decided.event for each in turns(steps) for decided in stage.step(each)]
    for container in (each for event in said for each in event.containers):
        for resource in ("cpu", "memory"):
            three = [getattr(bound, resource) for bound in (container.lower, container.target, container.upper)]
            assert None in three or three == sorted(three), container


def test_a_node_that_cuts_a_pod_leaves_each_target_between_its_bounds() -> None:
    """The sums of lower bounds, targets and upper bounds are cut in three ratios: 6 of 8 cores, and nothing of the lower ones."""
    nan = math.nan
    amounts = np.array([[2000.0, 1500.0, 700.0, 1.0, 2.0, 3.0], [nan, 5.0, 6.0, 9.0, nan, 1.0]])
    found = order_columns(amounts.copy())
    assert found[0].tolist() == [1500.0, 1500.0, 1500.0, 1.0, 2.0, 3.0]
    assert math.isnan(found[1, 0])
    assert found[1, 1:3].tolist() == [5.0, 6.0]
