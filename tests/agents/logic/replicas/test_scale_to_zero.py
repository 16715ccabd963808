"""Workloads at zero, with HPAScaleToZero and without: who may wake them, and what it takes."""

from dataclasses import replace

import pytest

from agents.logic.replicas import ehpa_manifest, replica_planning
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.hpa_reconcile import HpaMemory
from agents.logic.replicas.pod_usage import WorkloadPods
from agents.logic.replicas.replica_planning import ScalingSituation
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import CronTrigger, MetricSpec, MetricTarget
from tests.support.replica_scene import CPU, MONDAY, ehpa, scale

QUEUE = MetricSpec("External", "queue", MetricTarget("AverageValue", average_value="10"))
IDENTIFIER = "external.queue"
FROM_1_37, BEFORE = ForecasterSettings(), ForecasterSettings(scale_to_zero=False)
WITHOUT = ehpa(min_replicas=0, metrics=(QUEUE,), prediction=None)


def replicas(settings: ForecasterSettings, current: int, load: float, memory: HpaMemory, made: EhpaChanged = WITHOUT) -> int:
    """What is planned for so many replicas at this length of the queue."""
    situation = ScalingSituation(scale(MONDAY, current), WorkloadPods(()), None, MONDAY.timestamp(), {IDENTIFIER: load})
    return replica_planning.plan(ehpa_manifest.ehpa_of(made), situation, memory, settings).decision.replicas


@pytest.mark.parametrize(
    ("settings", "rests", "expected"),
    [
        pytest.param(FROM_1_37, True, 3, id="its autoscaler brought it to zero"),
        pytest.param(FROM_1_37, False, 0, id="somebody else did"),
        pytest.param(BEFORE, False, 3, id="before 1.37 nobody asks who did"),
    ],
)
def test_a_workload_at_zero_is_woken_if_its_autoscaler_brought_it_there(
    settings: ForecasterSettings, rests: bool, expected: int
) -> None:
    assert replicas(settings, 0, 30.0, HpaMemory(rests=rests)) == expected


def test_a_workload_with_nothing_to_do_goes_to_zero_and_comes_back() -> None:
    settings = ForecasterSettings(downscale_window=0.0)  # type: ignore[arg-type]  # a unit
    situation = ScalingSituation(scale(MONDAY, 2), WorkloadPods(()), None, MONDAY.timestamp(), {IDENTIFIER: 0.0})
    made = ehpa_manifest.ehpa_of(WITHOUT)
    first = replica_planning.plan(made, situation, HpaMemory(), settings)
    result = replica_planning.plan(made, replace(situation, now=situation.now + 15), first.memory, settings)
    assert (result.decision.replicas, result.memory.rests) == (0, True)
    assert replicas(settings, 0, 30.0, result.memory) == 3


def test_zero_needs_something_that_is_known_without_pods() -> None:
    """The API server refuses such an HPA: nothing could ever scale it up again."""
    only_cpu = replace(WITHOUT, metrics=(CPU,))
    with pytest.raises(ValueError, match="minReplicas is 0, which needs a metric of type Object or External"):
        replicas(FROM_1_37, 2, 30.0, HpaMemory(), only_cpu)
    with_cron = replace(only_cpu, crons=(CronTrigger("night", "0 1 * * *", "0 5 * * *", 8),))
    assert replicas(FROM_1_37, 2, 30.0, HpaMemory(), with_cron) == 2


@pytest.mark.parametrize("current", [0, 2])
def test_while_its_metric_cannot_be_read_a_workload_stays_as_it_is(current: int) -> None:
    """Nobody knows whether there is work: it is neither taken to zero nor woken for nothing."""
    situation = ScalingSituation(scale(MONDAY, current), WorkloadPods(()), None, MONDAY.timestamp(), {})
    result = replica_planning.plan(ehpa_manifest.ehpa_of(WITHOUT), situation, HpaMemory(rests=True), FROM_1_37)
    assert result.decision.replicas == current
