"""Runs `ullage mode`: how far Ullage may go in a cluster. `pause` and `resume` change a cluster's control in the same way."""

from dataclasses import replace

from agents.operate.operator_session import operator_session
from agents.processes.output import data
from agents.settings.tree import Settings
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from streams.errors import BadInput
from streams.publishing import source_reports


def run(settings: Settings, *, mode: Mode, budget: float | None, reason: str) -> None:
    """Set the mode, and the budget unless it is None. A pause stays."""
    change_control(settings, mode=mode, budget=budget, reason=reason)


def change_control(
    settings: Settings, *, reason: str, mode: Mode | None = None, budget: float | None = None, paused: bool | None = None
) -> None:
    """Publish the cluster's newest control with these changes, and print what holds now. None leaves a thing as it is."""
    if budget is not None and not 0 <= budget <= 1:
        raise BadInput(f"--budget '{budget:g}' is no share of pods: it is between 0 and 1, as in --budget 0.1")
    cluster = settings.cluster.name
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, cluster)
        last = operator.control(cluster) or ControlChanged(at, cluster, Mode.SHADOW)
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


def describe(control: ControlChanged) -> str:
    """`apply, 10% of the pods at one time; PAUSED: database migration`."""
    why = f": {control.reason}" if control.reason else ""
    state = f"; PAUSED{why}" if control.paused else f" ({control.reason})" if control.reason else ""
    return f"{control.mode.value}, {control.budget:.0%} of the pods at one time{state}"
