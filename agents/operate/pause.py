"""How `ullage pause`, `resume` and `mode` work: what was said last about the cluster, with one thing changed."""

from dataclasses import replace
from datetime import UTC, datetime

from agents.processes.output import data
from agents.settings import log_factory
from agents.settings.tree import Settings
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.publishing.operator import Operator


def run(
    settings: Settings, *, reason: str, mode: Mode | None = None, budget: float | None = None, paused: bool | None = None
) -> None:
    """Say it, and print what holds now. None leaves a thing as it is."""
    if budget is not None and not 0 <= budget <= 1:
        raise BadInput(f"--budget '{budget:g}' is no share of pods: it is between 0 and 1, as in --budget 0.1")
    topics = log_factory.topics(settings)
    with log_factory.log(settings) as log:
        operator = Operator(log, topics, Codec(topics))
        cluster, at = settings.cluster.name, now(operator)
        last = operator.control(cluster) or ControlChanged(at, cluster, Mode.SHADOW)
        said = replace(
            last,
            at=at,
            mode=last.mode if mode is None else mode,
            budget=last.budget if budget is None else Fraction(budget),
            paused=last.paused if paused is None else paused,
            reason=reason if paused is not None or not last.paused else last.reason,
        )
        operator.say(said)
    data(f"{cluster}: {in_words(said)}")


def now(operator: Operator) -> datetime:
    """Event time: the newest tick; before the first one, the time of whoever types this."""
    tick = operator.tick()
    return datetime.now(UTC) if tick is None else tick.at  # noqa: TID251  # a driver, and the log tells no time yet


def in_words(control: ControlChanged) -> str:
    """`apply, 10% of the pods at one time; PAUSED: database migration`."""
    why = f": {control.reason}" if control.reason else ""
    state = f"; PAUSED{why}" if control.paused else f" ({control.reason})" if control.reason else ""
    return f"{control.mode.value}, {control.budget:.0%} of the pods at one time{state}"
