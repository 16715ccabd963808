"""The forecaster: predicts the load of each workload, and plans how many replicas it should have for that.

It works by workload: a partition owns the objects whose target is in it. In one turn it fits at most a few models, the longest
due first, so a turn's cost is bounded however many loads there are. It publishes forecasts when they change or run out, and plans
replicas for each EHPA once an interval. It scales nothing itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agents.engine.tables.chunked_state import PartedState
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Decided, Turn
from agents.logic.guards import shared_guards
from agents.logic.replicas import load_models, plan_decisions
from agents.logic.replicas.ehpa_crons import CronClock
from agents.logic.replicas.forecaster_settings import NAME, ForecasterSettings
from agents.logic.replicas.forecaster_state import ForecasterState, LoadSample, TimerQueue, next_round
from agents.logic.replicas.load_models import FitTask, LoadModel
from agents.logic.replicas.metric_series import WantedSeries, model_key, ring_key
from agents.logic.replicas.plan_decisions import PlanMemory, PlanRequest
from agents.logic.replicas.replica_planning import ScalingSituation
from agents.logic.stage_rules import StageRules
from schemas import times
from schemas.bounds import MOST_CRONS, MOST_FORECASTS
from schemas.decisions.replica_plans import LoadForecast, MetricForecast, ScalingMode
from schemas.ids import DecisionId
from schemas.names import Place, Workload
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.policies.scaling import AlgorithmOptions
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class LastForecast:
    """The last forecast published for an object: the turn it expires in, the content a new one must differ from, its subject."""

    expires: int
    said: str
    workload: str
    uid: str
    generation: int
    window: int


class Forecaster(PartedState):
    """The state of one partition. `partition_of` gives the partition of a workload's key."""

    def __init__(self, settings: ForecasterSettings, partition: int, partition_of: Callable[[str], int]) -> None:
        self.partition, self._own, self._partition_of = partition, settings, partition_of
        self._build(settings)

    def _build(self, settings: ForecasterSettings) -> None:
        """Make an empty state that decides by these settings."""
        self.settings = settings
        self.rules = StageRules(NAME, self._own)
        self.known = ForecasterState(lambda key: self._partition_of(key) == self.partition, settings.most_metrics)
        self.published: ObjectTable[LastForecast] = ObjectTable("published", LastForecast, 64)
        self.plans: ObjectTable[PlanMemory] = ObjectTable("plans", PlanMemory, 64)
        self._expiring, self._rounds = TimerQueue(), TimerQueue()
        self._crons = CronClock(upstream=settings.upstream_crons)
        self._stale = False
        super().__init__(self.rules.table, self.published, self.plans, *self.known.tables())

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self._stale = True

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take in a turn, then fit, forecast and plan whatever is due."""
        self.scatter(turn)
        self._follow_rules(turn)
        if self._stale:
            self._find_anew()
        self.known.ingest(turn)
        self._fit(turn)
        changed, self.known.changed = self.known.changed, set()
        for key in changed:
            self._schedule(key, turn)
        due = {*changed, *self._expiring.take(turn.number, len(self.published) + 1)}
        # Sorted, because the order of decisions is part of what a replay must give again.
        decided = [decision for key in sorted(due) for decision in self._forecast(turn, key)]
        for key in self._rounds.take(turn.number, len(self.plans) + 1):
            decided += self._plan(turn, key)
        return decided

    def _follow_rules(self, turn: Turn) -> None:
        """From this turn on, decide by the rules in the log."""
        self.rules.ingest(turn.of("rules"))
        settings = self.rules.settings
        if settings != self.settings:
            self.rebuild(partial(self._build, settings))

    def _find_anew(self) -> None:
        self._stale = False
        self.known.loaded()
        self._expiring = TimerQueue((key, forecast.expires) for key, forecast in self.published.items())
        self._rounds = TimerQueue((key, memory.due) for key, memory in self.plans.items())

    def _schedule(self, key: str, turn: Turn) -> None:
        """Plan for an EHPA of this partition from its next round on."""
        if self.known.ehpas.get(key) is None:
            self._rounds.remove(key)
            self.plans.remove(key)
            self._crons.remove(key)
            self._crons.remove(_later(key))
        elif self.plans.get(key) is None:
            due = next_round(key, turn.number, self._interval)
            self.plans.upsert(key, PlanMemory(due))
            self._rounds.put(key, due)

    @property
    def _interval(self) -> int:
        return max(1, int(self.settings.interval * 1000))

    def _fit(self, turn: Turn) -> None:
        # At most a few, because a fit takes about 5 ms and a turn must not take longer the more loads there are.
        for name in self.known.fits.take(turn.number, self.settings.fits_per_turn):
            key, _, identifier = name.partition("|")
            wanted = next((series for series in self.known.wanted.of(key) if series.identifier == identifier), None)
            if wanted is None or wanted.options is None:
                continue
            model = self._model(key, wanted, wanted.options, turn)
            self.known.models.upsert(name, model)
            self.known.fits.put(name, model.due)
            self.known.changed.add(key)

    def _model(self, key: str, wanted: WantedSeries, options: AlgorithmOptions, turn: Turn) -> LoadModel:
        task = FitTask(wanted.series, options, self._window(key), turn.number, self.settings)
        at, values = self.known.rings.series(ring_key(wanted))
        model = load_models.fit(at, values, task)
        # Too few samples are the symptom. A query that fails, or that does not exist, is what somebody can mend.
        failure = self.known.failures.get(ring_key(wanted))
        if model.upper is None and failure is not None:
            return LoadModel(wanted.series, model.due, model.fitted, reason="QueryFailed", message=failure.reason)
        if model.upper is None and not wanted.query and not wanted.scraped:
            return LoadModel(wanted.series, model.due, model.fitted, reason="NoQuery", message="nothing says how to ask for it")
        return model

    def _window(self, key: str) -> int:
        ehpa, prediction = self.known.ehpas.get(key), self.known.predictions.get(key)
        if ehpa is not None:
            return (ehpa.event.prediction.window_seconds or 0) if ehpa.event.prediction is not None else 0
        return (prediction.event.window_seconds or 0) if prediction is not None else 0

    def _forecast(self, turn: Turn, key: str) -> Iterator[Decided]:
        """The forecast decision about one object, if anything is new."""
        about, before = self._about(key), self.published.get(key)
        wanted = [series for series in self.known.wanted.of(key) if series.options is not None]
        refused = self._too_many(key)
        if about is None or not (wanted or refused):
            if before is not None:
                self.published.remove(key)
                self._expiring.remove(key)
                yield self._decided(turn, key, before, (), withdrawn=True)
            return
        if any((model := self._model_of(key, series)) is None or not model.fitted for series in wanted) and not refused:
            # Each metric is fitted within a few turns; then all are published at once, instead of a decision for each.
            return
        event, place = about
        window = self._window(key)
        metrics = () if refused else tuple(self._metric_forecast(key, series, turn, window) for series in wanted)
        last = self._last(event, metrics, turn, refused)
        if before is not None and last.said == before.said and before.expires > turn.number:
            return
        self.published.upsert(key, last)
        self._expiring.put(key, last.expires)
        causes = [sample.place for series in wanted if (sample := self._sample(series)) is not None]
        yield self._decided(turn, key, last, metrics, place, *dict.fromkeys(causes))

    def _about(self, key: str) -> tuple[EhpaChanged | TimeSeriesPredictionChanged, Place] | None:
        record = self.known.ehpas.get(key) or self.known.predictions.get(key)
        return None if record is None or not record.event.target else (record.event, record.place)

    def _too_many(self, key: str) -> str:
        if what := self.known.shares.exceeded(key):
            namespace, most = key.split("/", 2)[1], MOST_CRONS if what == "crons" else MOST_FORECASTS
            return f"older objects of namespace '{namespace}' have {most:,} {what}; more are not looked at"
        count = len(self.known.wanted.of(key))
        if count <= self.settings.most_metrics:
            return ""
        return f"the object has {count} metrics; more than {self.settings.most_metrics} are not looked at"

    def _model_of(self, key: str, wanted: WantedSeries) -> LoadModel | None:
        return self.known.models.get(model_key(key, wanted))

    def _sample(self, wanted: WantedSeries) -> LoadSample | None:
        return self.known.newest.get(ring_key(wanted))

    def _metric_forecast(self, key: str, wanted: WantedSeries, turn: Turn, window: int) -> MetricForecast:
        model = self._model_of(key, wanted) or LoadModel(wanted.series, turn.number)
        now = turn.number / 1000
        # Twice the window, so that readers can still look a whole window ahead when the next forecast comes late.
        return load_models.said(wanted.identifier, model, first=now, last=now + 2 * window)

    def _last(
        self,
        event: EhpaChanged | TimeSeriesPredictionChanged,
        metrics: Sequence[MetricForecast],
        turn: Turn,
        refused: str,
    ) -> LastForecast:
        """The record of a new forecast."""
        window = self._window(event.key)
        ends = [
            times.to_ms(metric.start) + int((len(metric.values) - 1) * metric.step * 1000) for metric in metrics if metric.values
        ]
        # It expires when less than a window of values is left, but not before the next refit: there is nothing newer until then.
        expires = max(min(ends, default=0) - window * 1000, turn.number + int(self.settings.refit * 1000))
        parts = [f"{metric.identifier} {metric.reason or metric.fitted}" for metric in metrics] or [refused]
        said = f"{event.uid} {event.generation} {window} {'; '.join(parts)}"
        return LastForecast(expires, said, event.target, event.uid, event.generation, window)

    def _decided(
        self,
        turn: Turn,
        key: str,
        last: LastForecast,
        metrics: tuple[MetricForecast, ...],
        *cause: Place,
        withdrawn: bool = False,
    ) -> Decided:
        _, namespace, kind, name = key.split("/")
        because: dict[str, object] = {"coverage": self.settings.coverage, "refit": self.settings.refit}
        if refused := "" if withdrawn else self._too_many(key):
            because["refused"] = refused
        event = LoadForecast(
            id=str(DecisionId(NAME, self.partition, turn.number, "forecast", key)),
            at=turn.at,
            expires=times.from_ms(last.expires),
            workload=Workload.parse(last.workload),
            object_kind=kind,
            namespace=namespace,
            name=name,
            uid=last.uid,
            generation=last.generation,
            window=Seconds(float(last.window)),
            metrics=metrics,
            because=because,
            withdrawn=withdrawn,
            refused=refused,
        )
        return Decided("load-forecasts", key, event, cause)

    def _plan(self, turn: Turn, key: str) -> Iterator[Decided]:
        """A pass over one EHPA."""
        record, memory = self.known.ehpas.get(key), self.plans.get(key)
        if record is None or memory is None:
            return
        due = next_round(key, turn.number, self._interval)
        request = PlanRequest(record, memory, due, turn, self.settings, self.partition)
        objection = self._objection(key, record.event)
        situation = None if objection is not None else self._situation(key, record.event, turn)
        outcome = plan_decisions.decide(request, objection, situation)
        self.plans.upsert(key, outcome.memory)
        self._rounds.put(key, due)
        yield from outcome.decided

    def _objection(self, key: str, ehpa: EhpaChanged) -> tuple[str, str] | None:
        """The guard that objects to scaling the workload, and its sentence; None if none does."""
        if ehpa.unsupported or not ehpa.target:
            return "spec", ehpa.unsupported or "the EHPA names no target"
        first = self.known.shares.scaled_by(ehpa.target) or key
        if first != key:
            # Before all other guards, because consumers go by it, whatever else is the matter.
            _, namespace, _, name = first.split("/")
            return "rival", f"the EHPA '{namespace}/{name}' scales the same target and is older"
        if paused := shared_guards.paused(self.known.control.get(ehpa.cluster)):
            return "paused", paused
        if refused := self._too_many(key):
            return self.known.shares.exceeded(key) or "metrics", refused
        # Of two that set the replicas each would undo the other's. An HPA of ours beside it is Kubernetes' to refuse.
        if plan_decisions.carried_out_by(ehpa) is ScalingMode.DIRECT and (hpa := self.known.foreign_hpa(ehpa.target, ehpa.uid)):
            return "hpa", f"the HorizontalPodAutoscaler '{ehpa.namespace}/{hpa}', which is not ours, scales the same target"
        return None

    def _situation(self, key: str, ehpa: EhpaChanged, turn: Turn) -> ScalingSituation | None:
        """What we know about the target; None while nobody has seen its scale."""
        target, now = ehpa.target, turn.number / 1000
        scale = self.known.scales.get(target)
        if scale is None:
            return None
        wanted = self.known.wanted.of(key)
        fresh = now - self.settings.samples_within
        samples = {series.identifier: self._sample(series) for series in wanted}
        values = {name: sample.value for name, sample in samples.items() if sample is not None and sample.at >= fresh}
        pods = self.known.usage.of(target)
        # For an HPA a pod that has ended well is as busy as can be, and may keep others there for ever. We need not do as HPAs do
        # where none scales.
        direct = plan_decisions.carried_out_by(ehpa) is ScalingMode.DIRECT
        situation = ScalingSituation(
            scale.event,
            pods.living if direct else pods,
            self.known.usage.usage.get(target),
            now,
            values,
            self._forecasts(key, wanted, now),
            partial(self._crons.wanted, key),
        )
        ahead = self.settings.ahead
        if ahead <= 0:
            return situation
        # A key of its own in the cron clock, or the two times would throw each other out of the cache in every round.
        forecasts, crons = self._forecasts(key, wanted, now, ahead), partial(self._crons.wanted, _later(key))
        return replace(situation, later=replace(situation, now=now + ahead, forecasts=forecasts, crons=crons))

    def _forecasts(self, key: str, wanted: Sequence[WantedSeries], now: float, ahead: float = 0.0) -> dict[str, float]:
        """The highest forecast of each metric over the next window and `ahead` seconds more, if its forecast reaches that far."""
        until, forecasts = now + self._window(key) + ahead, dict[str, float]()
        for series in wanted:
            model = None if series.options is None else self._model_of(key, series)
            # A forecast that ends early may miss the peak, and a peak that is missed scales down.
            if model is not None and model.upper is not None and model.covers(until):
                highest = model.upper.highest(now, until)
                if highest is not None:
                    forecasts[series.identifier] = highest
        return forecasts


def _later(key: str) -> str:
    """The key of an object's crons in the cron clock when looking ahead."""
    return f"{key} later"
