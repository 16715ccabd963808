"""One workload with an EHPA in front of the forecaster: pods, usage, load and turns, worked out by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agents.engine.turn import Decided, Recorded, Turn
from agents.logic.replicas.forecaster import Forecaster
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from schemas.catalogue import CATALOGUE, Event
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ReplicasRefused
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.replica_scaling import LoadHistoryRead, ScaleSeen, series_id
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, Place, PodName, Workload
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, DspOptions, MetricSpec, MetricTarget, PredictionOptions
from schemas.policies.vpa import TargetRef

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
CART = Workload("prod", "shop", "Deployment", "cart")
CPU = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50))
RATE = MetricSpec("Pods", "http_requests", MetricTarget("AverageValue", average_value="10"))
CPU_SERIES = series_id("resource.cpu", "")
DSP = PredictionOptions(3600, AlgorithmOptions("dsp", DspOptions("1m", "7d")))
EHPA = EhpaChanged(
    MONDAY,
    "prod",
    "shop",
    "cart",
    MONDAY,
    TargetRef("Deployment", "cart", "apps/v1"),
    max_replicas=20,
    min_replicas=1,
    metrics=(CPU,),
    prediction=DSP,
    uid="u1",
    generation=1,
)


def load_at(at: datetime) -> float:
    """Cores of the whole workload: 1 at six in the evening, 5 at six in the morning, the same each day."""
    hours = (at - MONDAY).total_seconds() / 3600
    return 3.0 + 2.0 * math.sin(2 * math.pi * hours / 24)


def history(until: datetime, *, days: int = 7, series: str = CPU_SERIES) -> LoadHistoryRead:
    """What a metrics store knows of the load, a value each five minutes."""
    first = until - timedelta(days=days)
    values = tuple(load_at(first + timedelta(minutes=5 * n)) for n in range(days * 288))
    return LoadHistoryRead(until, CART, series, first, 300.0, values)


def pods(at: datetime, count: int, cpu: float | None = 1.0) -> list[PodChanged]:
    """So many pods that run and are ready since an hour, each with a request of so many cores."""
    asked = (ContainerSeen("app", Amounts(cpu, None), ready=True),)
    born = at - timedelta(hours=1)
    return [
        PodChanged(born, CART, PodName("shop", f"cart-{n}", f"uid-{n}"), PodPhase.RUNNING, born, asked, started=born)
        for n in range(count)
    ]


def scrape(at: datetime, count: int, cores: float) -> MetricsScraped:
    """What so many pods use, each the same."""
    names = tuple(f"cart-{n}" for n in range(count))
    return MetricsScraped(at, "prod", (CART.key,) * count, names, ("app",) * count, (cores,) * count, (1e8,) * count)


def scale(at: datetime, replicas: int) -> ScaleSeen:
    """The workload asks for so many replicas and has them."""
    return ScaleSeen(at, CART, replicas, replicas, "app=cart")


class ForecasterScene:
    """A forecaster of one partition, and turns that are taken in order."""

    def __init__(self, settings: ForecasterSettings | None = None, state: Forecaster | None = None) -> None:
        self.settings = settings or ForecasterSettings()
        self.state = state or self.fresh()
        self._offset = 0

    def fresh(self) -> Forecaster:
        """An empty state."""
        return Forecaster(self.settings, 0, lambda _key: 0)

    def turn(self, at: datetime, events: Sequence[Event] = ()) -> Turn:
        """A turn with these events."""
        inputs: dict[str, list[Recorded]] = {}
        for event in events:
            topic = CATALOGUE.of(type(event)).topics[0]
            self._offset += 1
            inputs.setdefault(topic, []).append(Recorded(event, Place(topic, 0, self._offset)))
        return Turn(int(at.timestamp() * 1000), inputs)

    def step(self, at: datetime, *events: Event) -> Sequence[Decided]:
        """Take a turn."""
        return self.state.step(self.turn(at, events))

    def run(self, at: datetime, seconds: float, *events: Event) -> list[Decided]:
        """Take the events in, then turns of five seconds for so long."""
        found = list(self.step(at, *events))
        for n in range(1, int(seconds // 5) + 1):
            found += self.step(at + timedelta(seconds=5 * n))
        return found


def forecasts(decided: Sequence[Decided]) -> list[LoadForecast]:
    """The forecasts among decisions."""
    return [each.event for each in decided if isinstance(each.event, LoadForecast)]


def plans(decided: Sequence[Decided]) -> list[ReplicasPlanned]:
    """The plans among decisions, without their copies."""
    return [each.event for each in decided if isinstance(each.event, ReplicasPlanned) and each.topic == "replica-plans"]


def refusals(decided: Sequence[Decided]) -> list[ReplicasRefused]:
    """The refusals among decisions, without their copies."""
    return [each.event for each in decided if isinstance(each.event, ReplicasRefused) and each.topic == "replica-plans"]


def resumed(scene: ForecasterScene) -> ForecasterScene:
    """The same scene after a restart: every chunk dumped and put into a fresh state."""
    state = scene.fresh()
    for chunk in sorted(scene.state.chunks()):
        state.load(chunk, scene.state.dump(chunk))
    again = ForecasterScene(scene.settings, state)
    again._offset = scene._offset
    return again


def ehpa(**changes: object) -> EhpaChanged:
    """The scene's EHPA with other fields."""
    return replace(EHPA, **changes)  # type: ignore[arg-type]  # names and values are the test's own
