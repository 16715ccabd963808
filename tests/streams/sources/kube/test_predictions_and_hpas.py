"""TimeSeriesPredictions and HPAs, from what the API server sends to the records in the log."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from schemas.facts.replica_scaling import HpaCondition, HpaGone, HpaSeen
from schemas.policies.ehpa import EhpaChanged, PredictionMetric, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.scaling import AlgorithmOptions, DspOptions, MetricSpec, MetricTarget
from schemas.policies.vpa import TargetRef
from streams.clients.kube.autoscaler_specs import HpaObject, PredictionObject
from streams.codec.event_codec import Codec
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish import ehpa_policies
from streams.sources.kube.publish.autoscaler_publisher import AutoscalerPublisher
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.watch.notifications import ObjectGone
from streams.sources.kube.watch_threads import watches
from streams.topics import Topics
from tests.support.kube_ehpas import ehpa

AT = datetime(2026, 1, 5, tzinfo=UTC)
TOPICS = Topics(partitions=2)
OWNER = {"apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler", "name": "cart", "uid": "u1"}
SPEC = {
    "targetRef": {"kind": "Deployment", "name": "cart", "apiVersion": "apps/v1", "namespace": "shop"},
    "predictionWindowSeconds": 1800,
    "predictionMetrics": [
        {
            "resourceIdentifier": "cpu",
            "type": "ResourceQuery",
            "resourceQuery": "cpu",
            "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "1m", "historyLength": "7d"}},
        },
        {"resourceIdentifier": "hits", "type": "ExpressionQuery", "expressionQuery": {"expression": "sum(hits)"}},
    ],
}


def prediction(spec: object = SPEC, owners: tuple[object, ...] = ()) -> PredictionObject:
    about = {"name": "cart", "namespace": "shop", "uid": "u2", "generation": 4, "creationTimestamp": "2026-01-01T00:00:00Z"}
    body = {"metadata": {**about, "labels": {"team": "a"}, "ownerReferences": list(owners)}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=PredictionObject)


def hpa(target: str = "cart", desired: int = 4) -> HpaObject:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    body = {
        "metadata": {
            "name": "ehpa-cart", "namespace": "shop", "uid": "u3", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [OWNER],
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 2, "maxReplicas": 9, "metrics": [cpu],
        },
        "status": {
            "currentReplicas": 3, "desiredReplicas": desired, "lastScaleTime": "2026-01-04T00:00:00Z",
            "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "m"}],
            "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}],
        },
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(body), type=HpaObject)


class Told:
    """A publisher over a log of two partitions, and what it wrote since the last look."""

    def __init__(self) -> None:
        self.codec = Codec(TOPICS)
        self.publisher = Publisher(LogContext.of(MemoryLog(), TOPICS, "prod"))
        self.autoscalers = AutoscalerPublisher(self.publisher, "prod", lambda: AT)

    def news(self, topic: str) -> list[object]:
        records = [each for each in self.publisher.drain() if each.topic == TOPICS.wire(topic)]
        return [self.codec.decode(each) for each in records]  # type: ignore[arg-type]  # a new record has all that is read


def test_every_field_of_a_prediction_reaches_its_policy() -> None:
    found = ehpa_policies.prediction_changed(prediction(owners=(OWNER,)), "prod", AT)
    assert found == TimeSeriesPredictionChanged(
        AT,
        "prod",
        "shop",
        "cart",
        datetime(2026, 1, 1, tzinfo=UTC),
        TargetRef("Deployment", "cart", "apps/v1"),
        "shop",
        1800,
        (
            PredictionMetric("cpu", "ResourceQuery", "cpu", algorithm=AlgorithmOptions("dsp", DspOptions("1m", "7d"))),
            PredictionMetric("hits", "ExpressionQuery", expression="sum(hits)"),
        ),
        {"team": "a"},
        "u1",
        uid="u2",
        generation=4,
    )


METRIC = SPEC["predictionMetrics"][0]  # type: ignore[index]  # it is a list


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targetRef": {"kind": "Deployment", "name": ""}}, "spec.targetRef names no kind or no name"),
        ({"predictionWindowSeconds": 599}, "spec.predictionWindowSeconds is 599; it must be at least 600"),
        ({"predictionMetrics": []}, "spec.predictionMetrics is empty"),
        ({"predictionMetrics": [METRIC, METRIC]}, "names 'cpu' more than once"),
        ({"predictionMetrics": [{**METRIC, "type": "Guess"}]}, "[0] has the type 'Guess'"),
        ({"predictionMetrics": [{**METRIC, "type": "MetricQuery"}]}, "[0] asks by a MetricQuery, which nothing answers"),
        ({"predictionMetrics": [{**METRIC, "type": "ExpressionQuery"}]}, "[0] is of type ExpressionQuery and says no query"),
        ({"predictionMetrics": 7}, "spec.predictionMetrics"),
        ({"targetRef": 7}, "spec.targetRef"),
    ],
)
def test_a_prediction_that_makes_no_sense_says_what_is_wrong(changes: dict[str, object], words: str) -> None:
    found = ehpa_policies.prediction_changed(prediction({**SPEC, **changes}), "prod", AT)
    assert words in found.unsupported
    assert found.name == "cart"


def test_a_prediction_that_is_too_large_is_published_as_that() -> None:
    found = ehpa_policies.prediction_changed(prediction({**SPEC, "predictionMetrics": [METRIC] * 1_001}), "prod", AT)
    bound = ehpa_policies.prediction_within_bounds(found, lambda _: 0)
    assert "1001 entries" in bound.unsupported
    assert (bound.metrics, bound.target) == ((), "prod/shop/Deployment/cart")


def test_a_prediction_goes_to_every_partition_and_is_withdrawn_when_it_is_gone() -> None:
    told = Told()
    told.autoscalers.seen("", prediction(), AT)
    told.autoscalers.seen("", prediction(), AT)
    assert [type(each) for each in told.news("policies")] == [TimeSeriesPredictionChanged] * 2
    told.autoscalers.gone(ObjectGone("timeseriespredictions", "shop", "cart", ""), AT)
    assert [type(each) for each in told.news("policies")] == [TimeSeriesPredictionRemoved] * 2


def test_an_hpa_is_told_when_its_spec_counts_or_conditions_change() -> None:
    told = Told()
    told.autoscalers.seen("", hpa(), AT)
    told.autoscalers.seen("", hpa(), AT)
    [seen] = told.news("pod-changes-by-cluster")
    assert isinstance(seen, HpaSeen)
    assert (seen.workload.key, seen.min_replicas, seen.max_replicas, seen.current, seen.desired, seen.owner_uid) == (
        "prod/shop/Deployment/cart", 2, 9, 3, 4, "u1",
    )  # fmt: skip
    assert seen.metrics == (MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50)),)
    assert seen.conditions == (HpaCondition("AbleToScale", "True", "ReadyForNewScale", "m"),)
    told.autoscalers.seen("", hpa(desired=5), AT)
    assert len(told.news("pod-changes")) == 1


def test_an_hpa_that_scales_another_workload_now_is_gone_for_the_one_before() -> None:
    told = Told()
    told.autoscalers.seen("", hpa(), AT)
    told.publisher.drain()
    told.autoscalers.seen("", hpa("web"), AT)
    gone, seen = told.news("pod-changes-by-cluster")
    assert isinstance(gone, HpaGone)
    assert isinstance(seen, HpaSeen)
    assert (gone.workload.name, seen.workload.name) == ("cart", "web")


def test_after_a_restart_what_is_gone_is_withdrawn_and_nothing_is_told_twice() -> None:
    before = Told()
    before.autoscalers.seen("", prediction(), AT)
    before.autoscalers.seen("", hpa(), AT)
    asked = ehpa_policies.prediction_changed(prediction(), "prod", AT)
    [seen] = before.news("pod-changes-by-cluster")
    assert isinstance(seen, HpaSeen)
    known = PublishedState(predictions={asked.key: asked}, seen_hpas={"shop/ehpa-cart": seen})
    again = Told()
    again.autoscalers.restore(known, AT)
    again.autoscalers.seen("", prediction(), AT)
    again.autoscalers.synced("timeseriespredictions", controllers=True, at=AT)
    assert again.publisher.drain() == []
    again.autoscalers.synced("horizontalpodautoscalers", controllers=True, at=AT)
    [gone] = again.news("pod-changes-by-cluster")
    assert isinstance(gone, HpaGone)


def test_an_ehpa_carries_the_queries_of_rules_and_is_told_anew_when_they_change() -> None:
    rules = {"resource.cpu": "one"}
    told = Told()
    told.autoscalers = AutoscalerPublisher(told.publisher, "prod", lambda: AT, lambda _: rules)
    told.autoscalers.seen("", ehpa(), AT)
    told.autoscalers.seen("", ehpa(), AT)
    assert [each.queries for each in told.news("policies") if isinstance(each, EhpaChanged)] == [{"resource.cpu": "one"}] * 2
    told.autoscalers.republish(AT, timedelta(hours=3))
    assert told.publisher.drain() == []
    rules["resource.cpu"] = "two"
    told.autoscalers.republish(AT, timedelta(hours=3))
    assert [each.queries for each in told.news("policies") if isinstance(each, EhpaChanged)] == [{"resource.cpu": "two"}] * 2


def test_predictions_and_hpas_are_watched_where_the_settings_say_that_replicas_are_scaled() -> None:
    names = {"timeseriespredictions", "horizontalpodautoscalers"}
    assert not names & {watch.kind for watch in watches()}
    assert names <= {watch.kind for watch in watches(replicas=True)}
