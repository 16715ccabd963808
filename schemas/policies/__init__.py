"""Policies: what an operator asked for."""

from schemas.policies.control import ControlChanged
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.reverts import RevertEnded, RevertRequested
from schemas.policies.rules import StageRulesChanged
from schemas.policies.time_series_prediction import TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved

Policy = (
    VerticalPolicyChanged
    | VerticalPolicyRemoved
    | VpaChanged
    | VpaRemoved
    | LimitRangeChanged
    | LimitRangeRemoved
    | EhpaChanged
    | EhpaRemoved
    | TimeSeriesPredictionChanged
    | TimeSeriesPredictionRemoved
    | ControlChanged
    | StageRulesChanged
    | RevertRequested
    | RevertEnded
)
