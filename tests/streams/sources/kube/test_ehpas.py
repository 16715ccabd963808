"""EHPA objects and the scale of their targets, from what the API server sends to the records in the log."""

from datetime import UTC, datetime

import msgspec
import pytest

from schemas.facts.replica_scaling import ScaleSeen
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.scaling import MetricSpec, MetricTarget, ScaleStrategy
from schemas.policies.vpa import TargetRef
from streams.clients.kube.watched_objects import ControllerObject
from streams.codec.event_codec import Codec
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.kube.publish import ehpa_policies
from streams.sources.kube.publish.autoscaler_publisher import AutoscalerPublisher
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.watch.notifications import ObjectGone
from streams.sources.kube.watch_threads import watches
from streams.topics import Topics
from tests.support.kube_ehpas import SPEC, ehpa

AT = datetime(2026, 1, 5, tzinfo=UTC)
TOPICS = Topics(partitions=2)


def deployment(replicas: int | None, there: int, name: str = "cart") -> ControllerObject:
    body = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name, "a": "b"}}},
        "status": {"replicas": there},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=ControllerObject)


def test_every_field_of_an_ehpa_reaches_its_policy_and_what_machines_note_does_not() -> None:
    found = ehpa_policies.changed(ehpa(), "prod", AT)
    assert (found.unsupported, found.key, found.target) == (
        "", "prod/shop/EffectiveHorizontalPodAutoscaler/cart", "prod/shop/Deployment/cart",
    )  # fmt: skip
    assert (found.min_replicas, found.max_replicas, found.specific_replicas) == (2, 10, 4)
    assert found.strategy is ScaleStrategy.PREVIEW
    assert found.metrics == (
        MetricSpec("Resource", "cpu", MetricTarget("Utilization", 50)),
        MetricSpec("External", "queue", MetricTarget("AverageValue", average_value="30"), match_labels={"q": "orders"}),
    )
    assert found.crons[0].target_replicas == 8
    assert found.behavior is not None
    assert found.behavior.scale_down is not None
    assert found.behavior.scale_down.policies[0].value == 10
    assert found.prediction is not None
    assert found.prediction.window_seconds == 3600
    assert found.prediction.algorithm is not None
    assert found.prediction.algorithm.dsp is not None
    assert found.prediction.algorithm.dsp.fft[0].margin_fraction == "0.2"
    assert found.annotations == {"ullage/scaling": "direct"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"maxReplicas": "ten"}, "spec.maxReplicas"),
        ({"maxReplicas": 1}, "spec.maxReplicas is 1, and spec.minReplicas 2"),
        ({"scaleStrategy": "Manual"}, "spec.scaleStrategy is 'Manual'"),
        ({"scaleTargetRef": {"kind": "", "name": ""}}, "spec.scaleTargetRef names no kind"),
    ],
)
def test_an_ehpa_that_makes_no_sense_is_published_with_the_place_of_what_is_wrong(changes: dict, words: str) -> None:
    found = ehpa_policies.changed(ehpa({**SPEC, **changes}), "prod", AT)
    assert words in found.unsupported
    assert found.name == "cart"


def test_an_ehpa_that_is_too_large_is_published_as_that() -> None:
    many = [SPEC["metrics"][0]] * 1_001  # type: ignore[index]  # it is a list
    found = ehpa_policies.within_bounds(ehpa_policies.changed(ehpa({**SPEC, "metrics": many}), "prod", AT), lambda _: 0)
    assert "1001 entries" in found.unsupported
    assert (found.metrics, found.target) == ((), "prod/shop/Deployment/cart")


class Told:
    """A publisher over a log of two partitions, and what it wrote since the last look."""

    def __init__(self) -> None:
        self.codec = Codec(TOPICS)
        self.publisher = Publisher(LogContext.of(MemoryLog(), TOPICS, "prod"))
        self.autoscalers = AutoscalerPublisher(self.publisher, "prod", lambda: AT)

    def news(self, topic: str) -> list[object]:
        records = [each for each in self.publisher.drain() if each.topic == TOPICS.wire(topic)]
        return [self.codec.decode(each) for each in records]  # type: ignore[arg-type]  # a new record has all that is read


def test_a_scale_is_told_for_targets_alone_and_once_until_it_changes() -> None:
    told = Told()
    told.autoscalers.seen("deployments", deployment(3, 2), AT)
    told.autoscalers.seen("deployments", deployment(9, 9, "other"), AT)
    assert told.publisher.drain() == []
    told.autoscalers.seen("", ehpa(), AT)
    [first] = [each for each in told.news("pod-changes") if isinstance(each, ScaleSeen)]
    assert (first.workload.key, first.replicas, first.status_replicas, first.selector, first.reason) == (
        "prod/shop/Deployment/cart", 3, 2, "a=b,app=cart", "",
    )  # fmt: skip
    told.autoscalers.seen("deployments", deployment(3, 2), AT)
    assert told.publisher.drain() == []
    told.autoscalers.gone(ObjectGone("deployments", "shop", "cart", ""), AT)
    [gone] = told.news("pod-changes-by-cluster")
    assert isinstance(gone, ScaleSeen)
    assert gone.reason == "the Deployment 'shop/cart' is gone"


def test_an_ehpa_goes_to_every_partition_and_is_withdrawn_when_it_is_gone() -> None:
    told = Told()
    told.autoscalers.seen("", ehpa(), AT)
    assert [type(each) for each in told.news("policies")] == [EhpaChanged] * 2
    told.autoscalers.gone(ObjectGone("effectivehorizontalpodautoscalers", "shop", "cart", ""), AT)
    assert [type(each) for each in told.news("policies")] == [EhpaRemoved] * 2


def test_what_we_write_into_an_ehpa_ourselves_makes_no_new_policy() -> None:
    """Status and current metrics change all the time, and each write is a new version of the object."""
    told = Told()
    told.autoscalers.seen("", ehpa(version="17"), AT)
    told.news("policies")
    told.autoscalers.seen("", ehpa(version="18"), AT)
    assert told.news("policies") == []


def test_ehpas_are_watched_only_where_the_settings_say_so() -> None:
    name = "effectivehorizontalpodautoscalers"
    assert name not in [watch.kind for watch in watches()]
    assert name in [watch.kind for watch in watches(replicas=True)]
    assert f"{name} in shop" in [watch.name for watch in watches(["shop"], replicas=True)]


def test_a_target_reference_is_kept_with_its_api_version() -> None:
    assert ehpa_policies.changed(ehpa(), "prod", AT).target_ref == TargetRef("Deployment", "cart", "apps/v1")
