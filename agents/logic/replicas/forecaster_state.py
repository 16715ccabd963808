"""The forecaster's state of a partition (objects, scales, pods, loads, models, and what is due), and how records change it."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded, Turn
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import ControlRecord
from agents.logic.replicas import metric_series
from agents.logic.replicas.load_models import LoadModel
from agents.logic.replicas.load_ring_buffers import LoadRings
from agents.logic.replicas.metric_series import (
    NamespaceShares,
    SharingObject,
    WantedIndex,
    WantedSeries,
    model_key,
    ring_key,
    series_key,
)
from agents.logic.replicas.pod_usage import ScaledPodUsage
from schemas import times
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaGone, HpaSeen, LoadHistoryRead, LoadQueryFailed, LoadScraped, ScaleSeen
from schemas.facts.usage import MetricsScraped
from schemas.names import Place
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved


@dataclass(frozen=True, slots=True)
class EhpaRecord:
    """The newest version of an EHPA, with its place in the log."""

    event: EhpaChanged
    place: Place


@dataclass(frozen=True, slots=True)
class PredictionRecord:
    """The newest version of a TimeSeriesPrediction, and its place in the log."""

    event: TimeSeriesPredictionChanged
    place: Place


@dataclass(frozen=True, slots=True)
class ScaleRecord:
    """The newest scale of a workload, and its place in the log."""

    event: ScaleSeen
    place: Place


@dataclass(frozen=True, slots=True)
class HpaOwner:
    """The uid of the object that an HPA was generated for; empty for an HPA that somebody wrote."""

    owner_uid: str


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The newest value of a series, its time (seconds since the epoch) and its place in the log."""

    at: float
    value: float
    place: Place


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """Why the query of a series cannot be used."""

    reason: str


class ForecasterState:
    """The tables of one partition and the indexes over them. `owns` tells whether a workload's or object's key belongs here.

    The state keeps nothing of an object with more than `most` metrics.
    """

    def __init__(self, owns: Callable[[str], bool], most: int) -> None:
        self._owns, self._most = owns, most
        self.ehpas: ObjectTable[EhpaRecord] = ObjectTable("ehpas", EhpaRecord, 64)
        self.predictions: ObjectTable[PredictionRecord] = ObjectTable("predictions", PredictionRecord, 64)
        self.scales: ObjectTable[ScaleRecord] = ObjectTable("scales", ScaleRecord, 64)
        self.hpas: ObjectTable[HpaOwner] = ObjectTable("hpas", HpaOwner, 64)
        self._hpas_of: dict[str, set[str]] = {}
        """The names of the HPAs of each workload."""
        self.control: ObjectTable[ControlRecord] = ObjectTable("control", ControlRecord, 1)
        self.newest: ObjectTable[LoadSample] = ObjectTable("newest", LoadSample, 64)
        self.failures: ObjectTable[QueryFailure] = ObjectTable("failures", QueryFailure, 16)
        self.models: ObjectTable[LoadModel] = ObjectTable("models", LoadModel, 256)
        self.rings = LoadRings()
        self.wanted = WantedIndex()
        self.shares = NamespaceShares()
        self.usage = ScaledPodUsage(self.wanted.is_wanted)
        self.fits = TimerQueue()
        self.changed: set[str] = set()
        """Keys of objects that appeared, changed or disappeared in this turn."""

    def tables(self) -> tuple[StatePart, ...]:
        """The tables that a checkpoint holds."""
        return (
            self.ehpas,
            self.predictions,
            self.scales,
            self.hpas,
            self.control,
            self.newest,
            self.failures,
            self.models,
            self.rings,
            *self.usage.tables(),
        )

    def loaded(self) -> None:
        """Rebuild the indexes, which no checkpoint holds, after chunks were loaded."""
        self.wanted, self.shares = WantedIndex(), NamespaceShares()
        self.usage.rewire(self.wanted.is_wanted)
        for key in [*self.ehpas, *self.predictions]:
            self._share(key)
        for key in self.shares.settle():
            self.wanted.put(key, *self._wishes(key))
        self.fits = TimerQueue((key, model.due) for key, model in self.models.items())
        self._hpas_of = {}
        for key in self.hpas:
            workload, _, name = key.rpartition("|")
            self._hpas_of.setdefault(workload, set()).add(name)

    def ingest(self, turn: Turn) -> None:
        """Take in the records of a turn."""
        for recorded in turn.of("policies"):
            self._policy(recorded)
        for key in self.shares.settle():
            self._want(key, *self._wishes(key), turn.number)
        shared_guards.obey(self.control, turn)
        for recorded in turn.of("pod-changes"):
            self._fact(recorded)
        for recorded in turn.of("pod-metrics"):
            if isinstance(recorded.event, MetricsScraped):
                self._usage(recorded.event, recorded.place, turn.number)
        for recorded in turn.of("load-metrics"):
            self._load(recorded, turn.number)

    def _policy(self, recorded: Recorded) -> None:
        event = recorded.event
        match event:
            case EhpaChanged() if self._owns(event.target or event.key):
                self.ehpas.upsert(event.key, EhpaRecord(event, recorded.place))
            case TimeSeriesPredictionChanged() if self._owns(event.target or event.key):
                self.predictions.upsert(event.key, PredictionRecord(event, recorded.place))
            case EhpaChanged() | EhpaRemoved():
                if self.ehpas.remove(event.key) is None:
                    return
            case TimeSeriesPredictionChanged() | TimeSeriesPredictionRemoved():
                if self.predictions.remove(event.key) is None:
                    return
            case _:
                return
        self._share(event.key)

    def _share(self, key: str) -> None:
        """Count an object towards the share of its namespace, or take it out if it is gone."""
        record = self.ehpas.get(key) or self.predictions.get(key)
        if record is not None:
            self.shares.put(key, SharingObject.of(record.event))
        else:
            self.shares.remove(key)

    def _wishes(self, key: str) -> tuple[list[WantedSeries], str]:
        """The series that an object wants and is allowed, and the workload that it is about."""
        ehpa, prediction = self.ehpas.get(key), self.predictions.get(key)
        if ehpa is not None:
            return ([] if self.shares.is_refused(key) else metric_series.of_ehpa(ehpa.event)), ehpa.event.target
        if prediction is not None:
            return ([] if self.shares.is_refused(key) else metric_series.of_prediction(prediction.event)), prediction.event.target
        return [], ""

    def _want(self, key: str, wanted: Iterable[WantedSeries], workload: str, turn: int) -> None:
        """Record the series that an object wants now, and forget those that nobody wants any more."""
        before = {model_key(key, series) for series in self.wanted.of(key)}
        for name in self.wanted.put(key, wanted, workload) if workload else self.wanted.remove(key):
            self._forget_series(name)
        # An object with too many metrics is refused, and nothing is kept for it.
        kept = self.wanted.of(key) if len(self.wanted.of(key)) <= self._most else []
        now = {model_key(key, series): series for series in kept if series.options is not None}
        for name in before - now.keys():
            self.models.remove(name)
            self.fits.remove(name)
        for name, series in now.items():
            self.rings.add(ring_key(series))
            model = self.models.get(name)
            fresh = LoadModel(series.series, turn)
            # The options may have changed: forecast by the old fit until the new one is there, unless it is of another series.
            self.models.upsert(name, fresh if model is None or model.series != series.series else replace(model, due=turn))
            self.fits.put(name, turn)
        self.usage.wanted_changed()
        self.changed.add(key)

    def _forget_series(self, name: str) -> None:
        if name in self.rings:
            self.rings.remove(name)
        self.newest.remove(name)
        self.failures.remove(name)

    def _fact(self, recorded: Recorded) -> None:
        event = recorded.event
        match event:
            case PodChanged():
                self.usage.pod_changed(event)
            case PodDeleted():
                self.usage.pod_deleted(event)
            case ScaleSeen():
                self.scales.upsert(event.workload.key, ScaleRecord(event, recorded.place))
            case HpaSeen():
                self.hpas.upsert(f"{event.workload.key}|{event.name}", HpaOwner(event.owner_uid))
                self._hpas_of.setdefault(event.workload.key, set()).add(event.name)
            case HpaGone():
                self.hpas.remove(f"{event.workload.key}|{event.name}")
                left = self._hpas_of.pop(event.workload.key, set()) - {event.name}
                self._hpas_of |= {event.workload.key: left} if left else {}
            case _:
                pass

    def foreign_hpa(self, workload: str, owner_uid: str) -> str:
        """The name of an HPA of the workload that does not follow from this owner; empty if there is none."""
        owners = {name: self.hpas.get(f"{workload}|{name}") for name in self._hpas_of.get(workload, ())}
        return min((name for name, hpa in owners.items() if hpa is not None and hpa.owner_uid != owner_uid), default="")

    def _usage(self, event: MetricsScraped, place: Place, turn: int) -> None:
        for workload in self.usage.scraped(event):
            reading = self.usage.usage.get(workload)
            if reading is None:
                continue
            for series in self.wanted.scraped(workload):
                resource = series.series.split("#", 1)[0].removeprefix("resource.")
                if (total := reading.total(resource)) is not None:
                    self._sample(ring_key(series), LoadSample(reading.at, total, place), turn)

    def _load(self, recorded: Recorded, turn: int) -> None:
        event = recorded.event
        match event:
            case LoadScraped():
                at = times.to_seconds(event.at)
                for row, (workload, series) in enumerate(zip(event.workloads, event.series, strict=True)):
                    name = series_key(workload, series)
                    if self.wanted.wants(name):
                        taken = at - (event.ages[row] if event.ages else 0.0)
                        self.failures.remove(name)
                        self._sample(name, LoadSample(taken, float(event.values[row]), recorded.place), turn)
            case LoadHistoryRead():
                self._history(event, turn)
            case LoadQueryFailed():
                name = series_key(event.workload.key, event.series)
                if self.wanted.wants(name):
                    self.failures.upsert(name, QueryFailure(event.reason))
                    self._fit_soon(name, turn)
            case _:
                pass

    def _sample(self, name: str, sample: LoadSample, turn: int) -> None:
        before = self.newest.get(name)
        if before is None:
            # The model says that nothing is known of this load, which is no longer true.
            self._fit_soon(name, turn)
        if before is None or before.at <= sample.at:
            self.newest.upsert(name, sample)
        if name in self.rings:
            self.rings.put(name, sample.at, sample.value)

    def _history(self, event: LoadHistoryRead, turn: int) -> None:
        """Fill a series with the history that a metrics store has."""
        name = series_key(event.workload.key, event.series)
        if name not in self.rings:
            return
        values = np.array([np.nan if value is None else value for value in event.values], np.float64)
        first = times.to_seconds(event.start)
        at = (first + np.arange(len(values)) * event.step).astype(np.int64)
        self.rings.fill(name, at, values)
        self._fit_soon(name, turn)

    def _fit_soon(self, name: str, turn: int) -> None:
        """Make every model of this series that has no forecast yet due for a fit now."""
        for key in self.wanted.users(name):
            for series in self.wanted.of(key):
                model_name = model_key(key, series)
                model = self.models.get(model_name)
                if ring_key(series) == name and model is not None and model.upper is None:
                    self.fits.put(model_name, turn)
                    # In the table, too: the queue is rebuilt from there after a restart.
                    self.models.upsert(model_name, LoadModel(series.series, turn, reason=model.reason, message=model.message))


class TimerQueue:
    """Keys with the turn in which each is due. Setting a key again replaces its turn. It is rebuilt from tables, and no state."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        self._due = dict(known)
        self._heap = [(turn, key) for key, turn in self._due.items()]
        heapq.heapify(self._heap)

    def put(self, key: str, turn: int) -> None:
        """Make a key due in this turn."""
        if self._due.get(key) != turn:
            self._due[key] = turn
            heapq.heappush(self._heap, (turn, key))

    def remove(self, key: str) -> None:
        """Make a key never due."""
        self._due.pop(key, None)

    def take(self, turn: int, most: int) -> list[str]:
        """Take out at most `most` keys that are due by now, the longest due first, then by name."""
        keys: list[str] = []
        while self._heap and self._heap[0][0] <= turn and len(keys) < most:
            due, key = heapq.heappop(self._heap)
            # An entry that was put again or removed stays in the heap, and is skipped when it comes to the top.
            if self._due.get(key) == due:
                del self._due[key]
                keys.append(key)
        return keys


def next_round(key: str, turn: int, interval: int) -> int:
    """The next turn of a key whose turns are `interval` milliseconds apart."""
    # Names spread the keys over the interval, so that no turn has to do the work of all. crc32, because Python's own hash of a
    # text differs from process to process.
    offset = crc32(key.encode()) % interval
    return ((turn - offset) // interval + 1) * interval + offset
