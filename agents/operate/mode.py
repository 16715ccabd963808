"""Runs `ullage mode`: how far Ullage may go in a cluster. `pause` and `resume` change a cluster's control in the same way."""

from dataclasses import replace

from agents.operate.operator_session import operator_session
from agents.processes.output import data
from agents.settings import setting_texts
from agents.settings.all_settings import Settings
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from streams.errors import BadInput
from streams.publishing import source_reports


def run(settings: Settings, *, mode: Mode, budget: str | None, reason: str) -> None:
    """Set the mode, and the budget (`10%` or `0.1`) unless it is None. A pause stays. Raises BadInput."""
    change_control(settings, mode=mode, budget=None if budget is None else _share(budget), reason=reason)


def change_control(
    settings: Settings, *, reason: str, mode: Mode | None = None, budget: float | None = None, paused: bool | None = None
) -> None:
    """Publish the cluster's newest control with these changes, and print the result. None leaves a value as it is."""
    cluster = settings.cluster.name
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, cluster)
        last = operator.control(cluster) or ControlChanged(at, cluster, Mode.SHADOW)
        if paused is False and not last.paused:
            data(f"{cluster} is not paused: {describe(last)}")
            return
        changed = replace(
            last,
            at=at,
            mode=last.mode if mode is None else mode,
            budget=last.budget if budget is None else Fraction(budget),
            paused=last.paused if paused is None else paused,
            reason=reason if paused is not None or not last.paused else last.reason,
        )
        operator.publish(changed)
    data(f"{cluster}: {describe(changed)}")


def _share(text: str) -> float:
    try:
        share = setting_texts.share(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise BadInput(f"--budget '{text}' is no share of pods: it is between 0 and 1, as in --budget 0.1 or --budget 10%")
    return share


def describe(control: ControlChanged) -> str:
    """`apply, 10% of the pods at one time; PAUSED: database migration`."""
    why = f": {control.reason}" if control.reason else ""
    state = f"; PAUSED{why}" if control.paused else f" ({control.reason})" if control.reason else ""
    return f"{control.mode.value}, {control.budget:.0%} of the pods at one time{state}"
