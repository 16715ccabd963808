"""Policies: what an operator asked for."""

from schemas.policies.control import ControlChanged, RevertEnded, RevertRequested, StageRulesChanged
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
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
