"""The decision what the load of a workload will be."""

from dataclasses import dataclass
from datetime import datetime

from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import Because
from schemas.names import Workload
from schemas.times import to_seconds
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class MetricForecast:
    """What one metric will be: values at `start`, `start + step` and so on, or why nobody can say.

    `values` include a margin and are what scaling goes by. `expected` are the same without the margin; empty if the model has
    none. `error` is how far past forecasts were off, as a share of the load; `period` in seconds, None for a model that repeats
    nothing. `reason` is one word, `message` a sentence; both are empty for a forecast.
    """

    identifier: str
    series: str
    start: datetime
    step: Seconds
    values: tuple[float, ...] = ()
    expected: tuple[float, ...] = ()
    model: str = ""
    period: Seconds | None = None
    error: float | None = None
    fitted: datetime | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """The forecasts of all metrics of one EHPA or TimeSeriesPrediction. The newest turn wins.

    `window` is how far ahead the object asks for forecasts. Right after the decision the values reach two windows ahead, and
    until `expires` at least one. `withdrawn`: the object is gone or wants no forecast any more. `refused` says why the object is
    left out of account, if it is; then there are no `metrics`.
    """

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    object_kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    window: Seconds
    metrics: tuple[MetricForecast, ...]
    because: Because
    withdrawn: bool = False
    refused: str = ""

    def holds(self, now: float) -> bool:
        """Whether it has not expired, in seconds since the epoch."""
        return now <= to_seconds(self.expires)

    @property
    def key(self) -> str:
        """The record key: the object's."""
        return f"{self.workload.cluster}/{self.namespace}/{self.object_kind}/{self.name}"

    @property
    def subject(self) -> Subject:
        """The object."""
        return Subject.of_object(self.workload.cluster, self.object_kind, self.namespace, self.name, self.uid)
