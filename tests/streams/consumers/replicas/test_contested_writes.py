"""What passes show and somebody else sets back, and what the API server refuses: not for ever at one pace, and not silently."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.outcomes import ObjectWritten, OutcomeDetail
from schemas.policies.scaling import ScaleStrategy
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.ehpa_reconciler import CURRENT_METRICS, EhpaReconciler
from streams.errors import GiveUp
from streams.log_context import LogContext
from tests.streams.consumers.replicas.test_ehpa_passes import KEY, Passes
from tests.streams.consumers.replicas.test_killed_autoscalers import CART, Site, T
from tests.support.replica_scene import MONDAY

CHANGING = "somebody else keeps changing an object"


def managed(live: Any, part: str = "status") -> None:
    entries = [("craned", part, "2026-01-05T01:00:00Z"), ("ullage-autoscalers", part, "2026-01-05T02:00:00Z")]
    entries.append(("kubectl", "" if part else "status", "2026-01-05T03:00:00Z"))
    live["metadata"]["managedFields"] = [{"manager": by, "subresource": of, "time": at} for by, of, at in entries]


def spoil_status(passes: Passes, turn: int) -> None:
    """The current replicas, too, are other ones in each look, and they are not ours."""
    live = passes.world.ehpas.held["shop", "web"]
    live["status"] = {"conditions": [], "expectReplicas": turn}
    managed(live)


def spoil_forecasts(passes: Passes, _turn: int) -> None:
    live = passes.world.tsps.held[KEY]
    live["status"] = {"conditions": [], "predictionMetrics": []}
    managed(live)


def spoil_substitute(passes: Passes, turn: int) -> None:
    live = passes.world.substitutes.held[KEY]
    live["status"] = {"replicas": 0}
    live["spec"]["replicas"] = 3 + turn % 2  # its HPA proposes something else each time
    managed(live)


def spoil_metrics(passes: Passes, turn: int) -> None:
    current = {"averageValue": str(turn)}
    metric = {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "current": current}}
    passes.world.hpas.held[KEY]["status"] = {"currentMetrics": [metric]}
    live = passes.world.ehpas.held["shop", "web"]
    live["metadata"].get("annotations", {}).pop(CURRENT_METRICS, None)
    managed(live, "")


@pytest.mark.parametrize(
    ("spoil", "kind", "changes", "what"),
    [
        (spoil_status, "ehpas", {}, "status of EffectiveHorizontalPodAutoscaler"),
        (spoil_forecasts, "tsps", {}, "status of TimeSeriesPrediction"),
        (spoil_substitute, "substitutes", {"strategy": ScaleStrategy.PREVIEW}, "status of Substitute"),
        (spoil_metrics, "ehpas", {}, f"{CURRENT_METRICS} of EffectiveHorizontalPodAutoscaler"),
    ],
)
def test_what_somebody_sets_back_is_written_more_and_more_seldom_and_the_log_names_the_writer(
    spoil: Callable[[Passes, int], None], kind: str, changes: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, writes = Passes(**changes), list[int]()
    keeper, part = getattr(passes.world, kind), "status" if what.startswith("status") else ""
    put = keeper.merge

    def merge(namespace: str, name: str, patch: Any, *, part: str = "") -> Any:
        if part == written and "spec" not in patch:
            writes.append(turn)
        return put(namespace, name, patch, part=part)

    turn, written = 0, part
    passes.run()
    monkeypatch.setattr(keeper, "merge", merge)
    with capture_logs() as lines:
        for turn in range(1, 2 * 120):
            spoil(passes, turn)
            passes.run(at=MONDAY + timedelta(seconds=30 * turn))
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert 6 <= len(writes) <= 13
    assert (pauses[0], max(pauses) >= 32) == (1, True), "the first ones at once, the last ones after half an hour"
    told = [line for line in lines if line["event"] == CHANGING]
    assert {(line["what"], line["writer"]) for line in told} == {(what, "craned")}
    assert len(told) <= len(writes)


def test_what_is_new_in_a_status_is_written_at_once_however_often_somebody_sets_it_back() -> None:
    passes = Passes()
    for turn in range(20):
        passes.run(at=MONDAY + timedelta(seconds=30 * turn))
        spoil_status(passes, turn)
    passes.run(at=MONDAY + timedelta(seconds=600))
    assert passes.status["conditions"] == [], "left as it is"
    passes.world.hpas.held[KEY]["status"] = {"desiredReplicas": 7, "currentReplicas": 3}
    passes.run(at=MONDAY + timedelta(seconds=630))
    assert (passes.status["expectReplicas"], passes.ready[0]) == (7, "True")
    passes.world.scales.clear()
    passes.run(at=MONDAY + timedelta(seconds=660))
    assert passes.ready == ("False", "FailedGetScale")


def test_a_status_and_metrics_that_change_in_each_look_are_nobodys_fight() -> None:
    passes, messages, shown = Passes(), list[str](), set[str]()
    with capture_logs() as lines:
        for turn in range(100):
            passes.run(at=MONDAY + timedelta(seconds=30 * turn))
            if turn:
                messages += [told["message"] for told in passes.status["conditions"] if told["type"] == "ScalingActive"]
                shown.add(passes.world.ehpas.held["shop", "web"]["metadata"]["annotations"][CURRENT_METRICS])
            metric = {"type": "Pods", "pods": {"metric": {"name": "x"}, "current": {"averageValue": str(turn)}}}
            condition = {"type": "ScalingActive", "status": "False", "reason": "FailedGetMetric", "message": f"try {turn}"}
            passes.world.hpas.held[KEY]["status"] = {"currentMetrics": [metric], "conditions": [condition]}
    assert (len(set(messages)), len(shown), lines) == (99, 99, [])


class Refused:
    """A consumer with its own clock, on an API server that answers the writes of one kind with `answer`, if there is one."""

    def __init__(self, kind: str, call: str, part: str = "") -> None:
        self.site, self.now, self.tries, self.answer = Site(), 0.0, list[float](), "403 forbidden"
        keeper = getattr(self.site.world, kind)
        asked = getattr(keeper, call)

        def ask(*given: Any, **named: Any) -> Any:
            if named.get("part", "") == part:
                self.tries.append(self.now)
                if self.answer:
                    raise GiveUp(doing="writing", to="it", answer=self.answer, detail=OutcomeDetail.FORBIDDEN)
            return asked(*given, **named)

        setattr(keeper, call, ask)
        reconciler = EhpaReconciler(self.site.world.clients, EhpaObjectGenerator(LabelPropagation()))
        context = LogContext.of(self.site.log, T, "prod")
        self.consumer = AutoscalerConsumer(context, reconciler, AutoscalerOptions(writers=1), clock=lambda: self.now)

    def play(self, hours: float) -> int:
        """How often it is tried in that time."""
        before, end = len(self.tries), self.now + hours * 3600
        while self.now < end:
            self.now += 15
            self.site.tick(MONDAY + timedelta(seconds=self.now))
            self.consumer.poll_once()
        return len(self.tries) - before


@pytest.mark.parametrize(
    ("kind", "call", "part", "strategy"),
    [
        ("hpas", "apply", "", ScaleStrategy.AUTO),
        ("tsps", "apply", "", ScaleStrategy.AUTO),
        ("substitutes", "apply", "", ScaleStrategy.PREVIEW),
        ("ehpas", "merge", "status", ScaleStrategy.AUTO),
        ("tsps", "merge", "status", ScaleStrategy.AUTO),
    ],
)
def test_what_is_refused_is_tried_more_and_more_seldom_until_the_spec_changes_and_each_answer_is_told(
    kind: str, call: str, part: str, strategy: ScaleStrategy
) -> None:
    refused = Refused(kind, call, part)
    refused.site.say(replace(CART, strategy=strategy))
    with capture_logs() as lines:
        assert refused.play(3) <= 15, "each half minute it would be 360"
        assert refused.tries[1] - refused.tries[0] <= 60
        assert refused.tries[-1] - refused.tries[-2] >= 1800
        refused.site.say(replace(CART, strategy=strategy, max_replicas=9, generation=2))
        assert 2 <= refused.play(1 / 30) <= 5, "at once, and as often as at first"
        refused.answer = "422 exceeded quota"
        refused.play(1)
        refused.answer = ""
        refused.play(1)
    told = [(line["event"], line.get("error", "").rpartition(": ")[2]) for line in lines if "write was" in line["event"]]
    assert told == [
        ("a write was refused", "403 forbidden"),
        ("a write was refused", "422 exceeded quota"),
        ("a refused write was accepted", ""),
    ]


def test_after_a_write_that_was_accepted_a_refusal_is_tried_as_often_as_at_first() -> None:
    refused = Refused("hpas", "apply")
    refused.play(3)
    refused.answer = ""
    refused.play(1)
    refused.answer = "403 forbidden"
    del refused.site.world.hpas.held["shop", "ehpa-cart"]
    assert refused.play(1 / 30) >= 3
    outcomes = [event for event in refused.site.events("outcomes") if isinstance(event, ObjectWritten)]
    assert [event.result.value for event in outcomes if event.object_kind == "HorizontalPodAutoscaler"] == [
        "failed",
        "done",
        "failed",
    ]
