"""Pods, samples and requests of the HPA vectors, in columns."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.logic.replicas import scaling_behavior
from agents.logic.replicas.replica_calculator import (
    ContainerRequest,
    HpaPodPhase,
    HpaPods,
    MetricSamples,
    PodRequest,
    ReadyCondition,
)
from agents.logic.replicas.scaling_behavior import ScalingBehavior
from streams.clients.kube.autoscaler_specs import BehaviorSpec
from streams.sources.kube.publish import ehpa_policies
from tests.support.kube_objects import decoded

Json = dict[str, Any]
NOW = 1_000_000.0
READY = {"True": ReadyCondition.YES, "False": ReadyCondition.NO, "Unknown": ReadyCondition.UNKNOWN}


def pods(given: Sequence[Json]) -> HpaPods:
    changed = [-1 if pod.get("ready_changed_s_ago") is None else pod["ready_changed_s_ago"] for pod in given]
    started = [pod.get("started_s_ago") for pod in given]
    return HpaPods(
        np.array([HpaPodPhase[(pod.get("phase") or "Unknown").upper()] for pod in given], np.int8),
        np.array([bool(pod.get("deleting")) for pod in given], np.bool_),
        np.array([READY.get(str(pod.get("ready")), ReadyCondition.ABSENT) for pod in given], np.int8),
        np.array([-math.inf if ago == -1 else NOW - ago for ago in changed], np.float64),
        np.array([math.nan if ago is None else NOW - ago for ago in started], np.float64),
    )


def samples(given: Sequence[Json], *, cpu: bool = False) -> MetricSamples:
    values = [pod.get("metric") for pod in given]
    return MetricSamples(
        np.array([value is not None for value in values], np.bool_),
        np.array([value or 0 for value in values], np.int64),
        np.array([NOW - (pod.get("metric_age_s") or 0) for pod in given], np.float64),
        np.array([pod.get("metric_window_s") or 0 for pod in given], np.float64),
        cpu,
    )


def asked(given: Sequence[Json], resource: str) -> list[PodRequest]:
    return [
        PodRequest(
            pod["name"],
            tuple(
                ContainerRequest(c["name"], (c.get("requests_milli") or {}).get(resource)) for c in pod.get("containers") or ()
            ),
            (pod.get("pod_requests_milli") or {}).get(resource),
            bool(pod.get("pod_requests_milli")),
        )
        for pod in given
    ]


def behavior(block: Json) -> ScalingBehavior:
    """The rules of a `behavior` block, as the kube source reads it and the log tells it."""
    rules = scaling_behavior.of_event(ehpa_policies.behavior(decoded(BehaviorSpec, block)))
    assert rules is not None
    return rules
