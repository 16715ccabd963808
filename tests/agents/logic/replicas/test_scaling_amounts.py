"""Amounts of an autoscaler's spec that are none: refused at the door of every stage, and told by the source of objects."""

import json
from dataclasses import replace

import msgspec
import pytest

from agents.logic.event_validation import refuse
from agents.logic.replicas import metric_series
from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from agents.run import pipeline
from agents.run.partition_task import Task
from agents.settings.all_settings import Settings
from schemas.facts.replica_scaling import HpaSeen
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import HpaBehavior, HpaScalingRules, MetricSpec, MetricTarget, PredictionOptions
from schemas.times import to_ms
from streams.clients.kube.autoscaler_specs import AutoscalerObject
from streams.codec.event_codec import Codec
from streams.log.log_port import Record
from streams.sources.kube.publish import ehpa_policies
from streams.topics import Topics
from tests.support import examples, ticks

TOPICS = Topics("ullage", 1)
(EHPA,) = (event for event in examples.EVENTS if isinstance(event, EhpaChanged))
(HPA,) = (event for event in examples.EVENTS if isinstance(event, HpaSeen))
ODD = ["1e1.5", "cart", "1e99999999999999999999", " ", "--", "\u0661\u0662", "-1", "1e60", "1" * 65]


def of(kind: str, **target: str) -> MetricSpec:
    return MetricSpec(kind, "cpu", MetricTarget("AverageValue", **target))  # type: ignore[arg-type]  # amounts are texts


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("kind", ["Resource", "Pods", "Object", "External", "ContainerResource"])
@pytest.mark.parametrize("field", ["average_value", "value"])
def test_an_amount_that_is_none_is_refused_in_every_metric(text: str, kind: str, field: str) -> None:
    reason = refuse(replace(EHPA, metrics=(of(kind, **{field: text}),)))
    assert reason is not None
    assert reason.startswith("metrics[0].target.")


def test_an_event_with_an_amount_that_is_none_is_set_aside_and_the_stage_goes_on() -> None:
    event = replace(EHPA, metrics=(of("Pods", value="1e1.5"),))
    (stage,) = (stage for stage in pipeline.stages(Settings()) if stage.name == "forecaster")
    task = Task(stage, 0, topics=TOPICS, codec=Codec(TOPICS), positions=dict.fromkeys(stage.reads, 0))
    new = task.codec.encode(event, topic="policies", key=event.key, partition=0, source="/test")
    task.feed("policies", Record(new.topic, 0, 0, new.key, new.value, new.headers))
    task.take_tick(ticks.of(task, to_ms(examples.AT) + 60_000))
    taken = task.next_turn()
    assert taken is not None
    assert "metrics[0].target.value is '1e1.5'" in json.loads(taken.dead[0].value or b"")["reason"]


@pytest.mark.parametrize("text", ["1e1.5", "cart", "1e99999999999999999999", "--"])
def test_an_object_that_a_checkpoint_holds_from_before_wants_no_series(text: str) -> None:
    assert metric_series.of_ehpa(replace(EHPA, metrics=(of("Pods", value=text),))) == []


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (replace(HPA, metrics=(of("Pods", value="1e1.5"),)), "metrics[0].target.value is '1e1.5', which is no quantity"),
        (
            replace(EHPA, behavior=HpaBehavior(None, HpaScalingRules(tolerance="cart"))),
            "behavior.scaleDown.tolerance is 'cart', which is no quantity",
        ),
        (
            replace(EHPA, behavior=HpaBehavior(HpaScalingRules(stabilization_window_seconds=2**40))),
            "behavior.scaleUp.stabilizationWindowSeconds is 1099511627776",
        ),
        (replace(EHPA, prediction=PredictionOptions(-1)), "prediction.predictionWindowSeconds is -1"),
        (replace(EHPA, metrics=(MetricSpec("Resource", "cpu", MetricTarget("Utilization", 2**31)),)), "averageUtilization is"),
    ],
)
def test_amounts_and_counts_are_refused_by_their_place(event: EhpaChanged | HpaSeen, words: str) -> None:
    reason = refuse(event)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize("text", ["", "0", "10", "100m", "1.5", "1Gi", "1e3", "1e15"])
def test_an_amount_that_is_one_is_taken(text: str) -> None:
    assert refuse(replace(EHPA, metrics=(of("Pods", average_value=text),))) is None


@pytest.mark.parametrize("text", ODD)
def test_the_source_tells_it_as_unsupported_and_that_is_taken_in(text: str) -> None:
    target = {"type": "AverageValue", "averageValue": text}
    body = {
        "metadata": {"namespace": "shop", "name": "cart", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"},
            "maxReplicas": 3,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": "q"}, "target": target}}],
        },
    }
    policy = ehpa_policies.changed(msgspec.json.decode(msgspec.json.encode(body), type=AutoscalerObject), "prod", examples.AT)
    assert policy.unsupported.startswith("The spec cannot be carried out: spec.metrics[0].target.averageValue ")
    assert policy.metrics == ()
    assert refuse(policy) is None


def test_the_consumer_of_autoscalers_asks_no_pods_for_an_object_that_cannot_be_read() -> None:
    target = {"averageUtilization": 50, "averageValue": "1e1.5"}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    spec = {"prediction": {"predictionWindowSeconds": 60}, "metrics": metrics}
    assert not EhpaObjectGenerator(LabelPropagation()).needs_pods({"spec": spec})
