"""Judges what was done to scales and generated objects, and what the metrics API answered, against plans, outcomes and forecasts.

It shares no code with the product: what a forecast says at a time, and what an HPA must say for an EHPA, is worked out anew here.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.decisions.replica_plans import LoadForecast, MetricForecast, ReplicasPlanned, ScalingMode
from schemas.outcomes import ActionFinished, ObjectChange, ObjectWritten, OutcomeDetail, Result
from tests.support.scaled_world import Written
from tests.torture.replica_api import ScaleSet

Json = dict[str, Any]
ACTS_AFTER_PAUSE = 2.0
"""Seconds of real time after a pause in which something that was under way may still be carried out."""
UNDER_WAY = 1
"""Writes of each kind that may have left a consumer before a pause, and writes of each holder that was frozen."""
LATE = 3.0
"""Seconds of real time after a plan's expiry in which its write may still arrive."""
LOST = 15.0
"""Seconds of real time after the write of an object in which its consumer must have died, if there is no outcome of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a view said: who was asked about which object's metric, when it answered (event time, in whole seconds) and with what.

    `value` is in milli-units, None for a refusal, whose sentence is `text`.
    """

    view: int
    key: str
    identifier: str
    at: float
    value: int | None
    text: str = ""


@dataclass
class ReplicaEvidence:
    """Everything that a verdict rests on. Times of the API are real; `event_time` turns them into the log's."""

    sets: Sequence[ScaleSet]
    written: Sequence[Written]
    plans: Sequence[ReplicasPlanned]
    outcomes: Sequence[ActionFinished]
    objects: Sequence[ObjectWritten]
    forecasts: Sequence[LoadForecast]
    answers: Sequence[Answer]
    ehpas: Mapping[str, Json]
    """The EHPAs in the end, by name, as the API has them."""
    hpas: Mapping[str, Json]
    end: float
    """The event time of the last look, in seconds."""
    epoch: float
    """Real time in seconds at which the event time was `origin`."""
    origin: float
    speed: float
    deaths: Sequence[float] = ()
    """When consumers died, in real time."""
    pauses: Sequence[tuple[float, float]] = ()
    freezes: int = 0
    started: Mapping[str, int] = field(default_factory=dict)
    """What each deployment asked for in the beginning."""

    def event_time(self, real: float) -> float:
        """Seconds of event time."""
        return self.origin + (real - self.epoch) * self.speed


def judge(seen: ReplicaEvidence) -> tuple[Counter[str], list[str]]:
    """Figures, and what is wrong."""
    direct = [plan for plan in seen.plans if plan.carried_out_by is ScalingMode.DIRECT]
    wrong = [*_sets(seen, direct), *_outcomes(seen, direct), *_objects(seen), *_paused(seen), *_answers(seen), *remains(seen)]
    return figures(seen), wrong


def figures(seen: ReplicaEvidence) -> Counter[str]:
    """How much of each thing happened."""
    results = Counter(outcome.result for outcome in seen.outcomes)
    outdated = sum("outdated" in answer.text for answer in seen.answers)
    return Counter(
        {
            "plans": sum(plan.carried_out_by is ScalingMode.DIRECT for plan in seen.plans),
            "scaled": len(seen.sets), "done": results[Result.DONE], "refused": results[Result.REFUSED],
            "failed": results[Result.FAILED], "expired": results[Result.EXPIRED], "objects written": len(seen.written),
            "forecasts": len(seen.forecasts), "answers": sum(answer.value is not None for answer in seen.answers),
            "outdated": outdated, "other refusals": sum(answer.value is None for answer in seen.answers) - outdated,
        }
    )  # fmt: skip


def _sets(seen: ReplicaEvidence, plans: Sequence[ReplicasPlanned]) -> Iterator[str]:
    """Each scale that was set is what one plan wants, that was open; no plan was carried out twice."""
    unused, late = list(plans), 0
    for one in seen.sets:
        at = seen.event_time(one.at)
        fits = [plan for plan in unused if _change(plan) == (one.name, one.before, one.after) and plan.at.timestamp() <= at]
        if not fits:
            yield f"'{one.name}' was scaled from {one.before} to {one.after}, which nobody decided, or somebody had done before"
            continue
        last = max(fits, key=lambda plan: plan.expires)
        unused.remove(next((plan for plan in fits if at <= plan.expires.timestamp() + LATE * seen.speed), last))
        if at > last.expires.timestamp() + LATE * seen.speed:
            late += 1
            if late > UNDER_WAY * seen.freezes:
                yield f"{last.id} was carried out {at - last.expires.timestamp():.0f} s of event time after it had expired"


def _outcomes(seen: ReplicaEvidence, plans: Sequence[ReplicasPlanned]) -> Iterator[str]:
    """Each plan has one outcome, and "done" is what the API shows."""
    by_plan: defaultdict[str, list[ActionFinished]] = defaultdict(list)
    for outcome in seen.outcomes:
        by_plan[outcome.decision].append(outcome)
    changes = Counter((one.name, one.before, one.after) for one in seen.sets)
    for plan in plans:
        found = by_plan.pop(plan.id, [])
        if not found:
            yield f"{plan.id} has no outcome"
        if len({(one.result, one.detail) for one in found}) > 1:
            yield f"{plan.id} has several outcomes: {sorted(f'{one.result} {one.detail}' for one in found)}"
        for one in found[:1]:
            if one.result is Result.DONE and one.detail is OutcomeDetail.APPLIED:
                changes[_change(plan)] -= 1
                if changes[_change(plan)] < 0:
                    name, before, after = _change(plan)
                    yield f"{plan.id} is done, and the API never saw '{name}' go from {before} to {after}"
            elif one.result is Result.DONE and not _was(seen, plan, one):
                yield f"{plan.id} is done, and '{plan.workload.name}' never asked for {plan.replicas}"
    yield from (f"an outcome names {name}, which nobody decided" for name in by_plan)


def _change(plan: ReplicasPlanned) -> tuple[str, int, int]:
    return plan.workload.name, plan.current, plan.replicas


def _was(seen: ReplicaEvidence, plan: ReplicasPlanned, outcome: ActionFinished) -> bool:
    """Whether the deployment asked for what was planned before the outcome says so."""
    until = outcome.at.timestamp() + LATE * seen.speed
    before = {one.after for one in seen.sets if one.name == plan.workload.name and seen.event_time(one.at) <= until}
    return plan.replicas in before or seen.started.get(plan.workload.name) == plan.replicas


def _objects(seen: ReplicaEvidence) -> Iterator[str]:
    """Each outcome of an object names one write; a write without one was its consumer's last."""
    done = {event.id: event for event in seen.objects if event.result is Result.DONE}.values()
    told = {(event.object_kind, event.name, event.id.rpartition("/")[2], event.change is ObjectChange.DELETED) for event in done}
    there = {(one.kind, one.name, one.version, one.gone): one for one in seen.written}
    yield from (
        f"an outcome says that {kind} '{name}' was written, which the API never saw" for kind, name, *_ in told - set(there)
    )
    if len(told) < len(done):
        yield f"{len(done) - len(told)} writes of objects have several outcomes"
    for what, one in there.items():
        if what not in told and not any(one.at <= death <= one.at + LOST for death in seen.deaths):
            yield f"{one.kind} '{one.name}' was written as version {one.version}, and no outcome says so"


def _paused(seen: ReplicaEvidence) -> Iterator[str]:
    for begin, end in seen.pauses:
        for what, times in (("scales", [one.at for one in seen.sets]), ("objects", [one.at for one in seen.written])):
            late = [at for at in times if begin + ACTS_AFTER_PAUSE < at < end]
            if len(late) > UNDER_WAY:
                yield f"{len(late)} {what} were written under a pause"


def _answers(seen: ReplicaEvidence) -> Iterator[str]:
    """Each value is what a forecast of the log says that had not expired."""
    of_key: defaultdict[str, list[LoadForecast]] = defaultdict(list)
    for forecast in seen.forecasts:
        if not forecast.withdrawn:
            of_key[forecast.key].append(forecast)
    for answer in seen.answers:
        if answer.value is None:
            continue
        held = (forecast for forecast in reversed(of_key[answer.key]) if answer.at <= forecast.expires.timestamp())
        if any(answer.value in values(forecast, answer.identifier, answer.at) for forecast in held):
            continue
        fits = [forecast for forecast in of_key[answer.key] if answer.value in values(forecast, answer.identifier, answer.at)]
        if not fits:
            yield f"view {answer.view} said {answer.value} for {answer.key} at {answer.at:.0f}, which no forecast says"
        else:
            late = answer.at - max(forecast.expires for forecast in fits).timestamp()
            yield f"view {answer.view} answered from a forecast of {answer.key} that had expired {late:.0f} s before"


def values(forecast: LoadForecast, identifier: str, at: float) -> set[int]:
    """What a forecast says within the second that begins at `at`, in milli-units: once, or twice where a step ends in it."""
    metric = next((each for each in forecast.metrics if each.identifier == identifier), None)
    if metric is None:
        return set()
    highest = (_highest(metric, at + part / 10, forecast.window) for part in range(11))
    return {max(0, math.ceil(round(value * 1000, 6))) for value in highest if value is not None}


def _highest(metric: MetricForecast, at: float, window: float) -> float | None:
    """The largest of the values whose step touches the window from `at` on."""
    begins = (metric.start.timestamp() + index * metric.step for index in range(len(metric.values)))
    found = [
        value for value, begin in zip(metric.values, begins, strict=True) if begin + metric.step > at and begin <= at + window
    ]
    return max(found, default=None)


def remains(seen: ReplicaEvidence) -> Iterator[str]:
    """In the end the HPAs are what the EHPAs say, and nothing else is there."""
    wanted = {name: expected(ehpa, newest(seen.forecasts, name), seen.end) for name, ehpa in seen.ehpas.items()}
    for name, spec in wanted.items():
        found = seen.hpas.get(f"ehpa-{name}", {}).get("spec")
        if found != spec:
            yield f"the HPA of '{name}' says {found}, not {spec}"
    yield from (f"HPA '{name}' follows from nothing" for name in seen.hpas if name.removeprefix("ehpa-") not in wanted)


def newest(forecasts: Iterable[LoadForecast], name: str) -> LoadForecast | None:
    """The forecast of an EHPA that was decided last."""
    return max((each for each in forecasts if each.name == name), key=lambda each: each.at, default=None)


def expected(ehpa: Json, forecast: LoadForecast | None, at: float) -> Json | None:
    """The spec of the HPA that follows from an EHPA; None where none does."""
    about, spec = ehpa["metadata"], ehpa["spec"]
    if (about.get("annotations") or {}).get("ullage/scaling") == "direct":
        return None
    target = spec["scaleTargetRef"]
    labels = {"targetKind": target["kind"], "targetName": target["name"], "targetNamespace": about["namespace"]}
    metrics = list(spec["metrics"])
    if "prediction" in spec and forecast is not None and not forecast.withdrawn and at <= forecast.expires.timestamp():
        ready = {metric.identifier for metric in forecast.metrics if metric.values}
        for entry in spec["metrics"]:
            block: Json = entry["pods" if entry["type"] == "Pods" else "resource"]
            name = f"pods.{block['metric']['name']}" if entry["type"] == "Pods" else f"resource.{block['name']}"
            if name in ready:
                metrics.append(_external("crane_autoscaling_prediction", labels, name, block["target"]["averageValue"]))
    if spec.get("crons"):
        metrics.append(_external("crane_autoscaling_cron", labels, "cron", "1"))
    substitute = {"apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "Substitute", "name": f"ehpa-{about['name']}"}
    return {
        "scaleTargetRef": substitute if spec["scaleStrategy"] == "Preview" else target,
        "minReplicas": spec["minReplicas"], "maxReplicas": spec["maxReplicas"], "metrics": metrics,
    }  # fmt: skip


def _external(metric: str, labels: Json, identifier: str, average: str) -> Json:
    named = {"name": metric, "selector": {"matchLabels": {**labels, "resourceIdentifier": identifier}}}
    return {"type": "External", "external": {"metric": named, "target": {"type": "AverageValue", "averageValue": average}}}
