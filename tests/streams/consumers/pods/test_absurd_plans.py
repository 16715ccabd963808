"""Plans that nobody should carry out: refused with the number and the bound, and the consumer goes on with the next one."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.decisions.pod_updates import ResizePlanned
from schemas.facts.nodes import NodeChanged
from schemas.names import Amounts
from schemas.outcomes import Result
from schemas.units import Bytes, Cores
from streams.consumers.resizer import objection, resizer
from streams.log.log_port import NewRecord
from tests.support.consumer_scene import MIB, SMALL, START, ConsumerScene, resize_of, scene_at_two


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


def carried_out(scene: ConsumerScene, requests: dict[str, Amounts], limits: dict[str, Amounts] | None = None) -> str:
    """The reason of the refusal of such a plan; the good plan behind it must be carried out."""
    pod = scene.pod()
    scene.plan(replace(resize_of(pod, "absurd"), requests=requests, limits=limits or {}))
    scene.plan(resize_of(pod, "good"))
    consumer = resizer(scene.context, scene.client)
    consumer.poll_once()
    scene.settle()
    consumer.poll_once()
    absurd, good = scene.outcomes()
    assert (absurd.decision, absurd.result) == ("updater/0/1/resize/absurd", Result.REFUSED)
    assert (good.decision, good.result) == ("updater/0/1/resize/good", Result.DONE)
    assert scene.client.acts == [f"resize {pod.pod.name}"]
    return absurd.reason


def test_more_cores_than_any_cluster_has(scene: ConsumerScene) -> None:
    reason = carried_out(scene, {"metrics": Amounts(Cores(8.64e13), Bytes(MIB))})
    assert reason == "requests['metrics'].cpu is 86400000000000.0; more than 1e+06 is not possible"


def test_limits_below_zero(scene: ConsumerScene) -> None:
    reason = carried_out(scene, dict(SMALL), {"metrics": Amounts(Cores(-1.0))})
    assert reason == "limits['metrics'].cpu is -1.0; an amount cannot be negative"


def test_a_leap_beyond_the_factor(scene: ConsumerScene) -> None:
    before = scene.pod().containers[0].requests.cpu or 0
    reason = carried_out(scene, {"metrics": Amounts(Cores(500.0))})
    assert reason.startswith("requests['metrics'].cpu is 500, more than 100 times what it was")
    assert before < 5


def test_more_than_the_largest_node_has(scene: ConsumerScene) -> None:
    context = scene.context
    for name, cores in (("small", 1.0), ("large", 4.0)):
        node = NodeChanged(START + timedelta(hours=2), "demo", name, Amounts(Cores(cores), Bytes(8 << 30)))
        scene.log.append(context.codec.encode_for_all(node, topic="cluster-changes", key="demo", source="/test"))
    reason = carried_out(scene, {"metrics": Amounts(Cores(4.5), Bytes(600 * MIB))})
    assert reason == "the plan requests 4500m in all, and the largest node has 4000m for pods"


def test_a_cut_to_next_to_nothing(scene: ConsumerScene) -> None:
    plan = resize_of(scene.pod())
    assert (plan.expect["metrics"].cpu, plan.expect["metrics"].memory) == (1.0, 1 << 30)
    assert objection(replace(plan, requests={"metrics": Amounts(memory=Bytes((1 << 30) // 1000))}), None)
    assert not objection(replace(plan, requests={"metrics": Amounts(Cores(0.001))}), None)
    reason = carried_out(scene, {"metrics": Amounts(Cores(0.0), Bytes(0))})
    assert reason == "requests['metrics'].cpu is 0, less than a 1000th of what it was (1)"


def test_limits_of_more_than_ten_of_the_largest_node(scene: ConsumerScene) -> None:
    node = NodeChanged(START + timedelta(hours=2), "demo", "large", Amounts(Cores(4.0), Bytes(8 << 30)))
    scene.log.append(scene.context.codec.encode_for_all(node, topic="cluster-changes", key="demo", source="/test"))
    reason = carried_out(scene, dict(SMALL), {"metrics": Amounts(Cores(40.5), Bytes(1 << 30))})
    assert reason == (
        "the plan limits the pod to 40500m in all, and the largest node has 4000m for pods, of which 10 times as much is the most"
    )


def test_a_limit_that_follows_the_ratio_that_the_pod_has_is_not_bounded_by_the_largest_node(scene: ConsumerScene) -> None:
    """autoscaler#9819 shows limits of 40 times a request: on such a pod no raise would ever be carried out."""
    [now] = scene.pod().containers
    now = replace(now, requests=Amounts(Cores(0.001), Bytes(MIB)), limits=Amounts(Cores(4.0), Bytes(1 << 30)))
    node = Amounts(Cores(4.0), Bytes(8 << 30))
    asked, limits = {now.name: Amounts(Cores(0.25), Bytes(250 * MIB))}, Amounts(Cores(1000.0), Bytes(250 << 30))
    plan = replace(resize_of(scene.pod()), expect={now.name: now.requests}, requests=asked, limits={now.name: limits})
    assert objection(plan, node, [now]) is None
    for absurd in (replace(limits, cpu=Cores(1020.0)), replace(limits, memory=Bytes(255 << 30))):
        beyond = objection(replace(plan, limits={now.name: absurd}), node, [now])
        assert beyond is not None
        assert beyond.startswith("the plan limits the pod to ")


def test_a_plan_that_may_be_carried_out_for_ever(scene: ConsumerScene) -> None:
    scene.plan(replace(resize_of(scene.pod()), expires=START + timedelta(days=8)))
    resizer(scene.context, scene.client).poll_once()
    [outcome] = scene.outcomes()
    assert (outcome.result, scene.client.acts) == (Result.REFUSED, [])
    assert outcome.reason.endswith("which is more than 7 days after it was decided")


def test_neither_an_impossible_node_nor_a_time_of_the_future_lifts_the_bound_of_the_largest_node(scene: ConsumerScene) -> None:
    context, later = scene.context, START + timedelta(hours=2)
    for at, cluster, name, cores in (
        (later, "demo", "large", 4.0),
        (later, "demo", "impossible", 1e15),
        (later.replace(year=2199), "other", "late", 1.0),
    ):
        node = NodeChanged(at, cluster, name, Amounts(Cores(cores), Bytes(8 << 30)))
        scene.log.append(context.codec.encode_for_all(node, topic="cluster-changes", key=cluster, source="/test"))
    reason = carried_out(scene, {"metrics": Amounts(Cores(4.5), Bytes(600 * MIB))})
    assert reason == "the plan requests 4500m in all, and the largest node has 4000m for pods"


def test_a_record_with_an_endless_number_is_set_aside_and_the_plan_behind_it_is_carried_out(scene: ConsumerScene) -> None:
    pod = scene.pod()
    good = resize_of(pod)
    record = record_of(scene, good)
    for number in ("1e308", "-1e308", "18446744073709551615"):
        value = (record.value or b"").replace(b'"cpu":0.3', b'"cpu":' + number.encode())
        scene.log.append([replace(record, value=value)])
    scene.plan(good)
    resizer(scene.context, scene.client).poll_once()
    assert len(scene.client.acts) == 1
    assert len(scene.records("dead-letters")) == 3


def record_of(scene: ConsumerScene, plan: ResizePlanned) -> NewRecord:
    partition = scene.topics.partition_of("demo")
    return scene.codec.encode(plan, topic="pod-updates", key="demo", partition=partition, source="/test")


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (Cores(1.0), Cores(100.0), False),
        (Cores(1.0), Cores(100.001), True),
        (Cores(0.05), Cores(10.0), False),
        (Cores(0.05), Cores(10.001), True),
        (None, Cores(10.0), False),
        (None, Cores(10.001), True),
        (Cores(0.2), Cores(20.0), False),
    ],
)
def test_a_leap_is_more_than_a_hundred_times_a_request_or_a_tenth_of_a_core(
    scene: ConsumerScene, before: Cores | None, after: Cores, *, refused: bool
) -> None:
    plan = replace(resize_of(scene.pod()), expect={"metrics": Amounts(before)}, requests={"metrics": Amounts(after)})
    assert (objection(plan, None) is not None) is refused
