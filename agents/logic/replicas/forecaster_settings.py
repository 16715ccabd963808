"""Settings of the forecaster. None of them is upstream's unless the text says so."""

from dataclasses import dataclass

from schemas.units import Fraction, Seconds

NAME = "forecaster"
PROGRAM = 7
"""Counts changes of this capability's code that change what is decided."""


@dataclass(frozen=True, slots=True)
class ForecasterSettings:
    """How load is forecast, and how often replicas are planned from it."""

    upstream_predictors: bool = False
    """Whether an EHPA's algorithm is carried out as upstream has it; otherwise `dsp` means the best of our own profiles."""
    upstream_crons: bool = False
    """Whether a cron of an EHPA is active when its next moment is the end, as upstream has it; otherwise, when it has started
    since it last ended."""
    refit: Seconds = Seconds(600.0)
    """A forecast is made anew after this time; upstream takes 12 hours."""
    fits_per_turn: int = 4
    """Forecasts made in one turn of a partition, at most; the others wait for the next turn. One takes about 5 ms."""
    coverage: Fraction = Fraction(0.9)
    """The margin is such that the load stayed below the forecast for this share of the time."""
    samples_within: Seconds = Seconds(900.0)
    """No forecast for a load of which no value was seen for this long, and no value older than this counts as one of now."""
    most_metrics: int = 50
    """Metrics of one object that are looked at, at most; an object with more is refused."""
    interval: Seconds = Seconds(15.0)
    """Replicas are planned once in this time of events for each workload; upstream's HPA controller does so."""
    tolerance: Fraction = Fraction(0.1)
    """A metric that is off its target by no more than this share changes nothing; the HPA controller's default."""
    downscale_window: Seconds = Seconds(300.0)
    """Replicas follow the highest proposal of this time downwards; the HPA controller's default."""
    initialisation: Seconds = Seconds(300.0)
    """CPU of a pod that is not ready says nothing in this time after its start; the HPA controller's default."""
    readiness: Seconds = Seconds(30.0)
    """A pod that becomes unready within this time of its start was never ready; the HPA controller's default."""
    scale_to_zero: bool = True
    """Whether workloads are scaled to 0 and back as with HPAScaleToZero, which Kubernetes has on by default from 1.37: one that
    its autoscaler has scaled to 0 is scaled up again, one that somebody else has is left alone. Set it to false before 1.37."""
    expires: Seconds = Seconds(120.0)
    """A plan is void after this time."""
    ahead: Seconds = Seconds(0.0)
    """A plan also says what forecasts and crons will ask for within this time, so that nodes are there by then: as long as a new
    node takes, 300 s, say. `nodes.planned_replicas` goes by it; 0 leaves it out."""
