"""Hypothesis strategies of every event type, over the whole range that the wire can carry."""

from datetime import UTC, datetime

import numpy as np
from hypothesis import strategies as st

from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import (
    CitedRules,
    ContainerDifference,
    ContainerRecommendation,
    LastOomKill,
    OomSource,
    OomSourceState,
    RequestsRecommended,
    ShadowCompared,
    ShadowRecommended,
)
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ContainerRun, ContainerSeen, PodChanged, PodDeleted, PodPhase, ResizeState
from schemas.facts.sources import SourceReported
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped, SavedHistogram
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, ObjectChange, ObjectWritten, OutcomeDetail, Result, StatusWritten
from schemas.policies.control import ControlChanged, Mode, RevertEnded, RevertRequested, StageRulesChanged
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from schemas.policies.vertical import (
    BoostKind,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    StartupBoost,
    Tuning,
    UpdateMode,
    VerticalPolicyChanged,
    VerticalPolicyRemoved,
)
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, Operator, Requirement, TargetRef, VpaChanged, VpaRemoved
from tests.support import node_events

texts = st.text(max_size=20)
names = st.text(st.characters(codec="utf-8", exclude_characters="/", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
times = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  # made aware by timezones
counts = st.integers(0, 2**31)
cores = st.floats(0, 1e6)
memory = st.integers(0, 10**16)
fractions = st.floats(0, 1)
amounts = st.builds(Amounts, st.none() | cores, st.none() | memory)
by_container = st.dictionaries(names, amounts, max_size=3)
workloads = st.builds(Workload, names, names, names, names)
pods = st.builds(PodName, names, names, names)
places = st.builds(Place, st.sampled_from(["ullage.pod-metrics.v1", "a:b"]), counts, memory)

_scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts
because = st.dictionaries(
    texts,
    st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6),
    max_size=4,
)


@st.composite
def scrapes(draw: st.DrawFn) -> MetricsScraped:
    """Columns of equal length, with gaps (NaN)."""
    rows = draw(
        st.lists(st.tuples(workloads.map(lambda w: w.key), names, names, *[st.just(np.nan) | st.floats(0, 1e15)] * 2), max_size=8)
    )
    columns = [tuple(column) for column in zip(*rows, strict=True)] or [()] * 5
    numbers = (np.array(column, dtype=np.float64) for column in columns[3:])
    column = st.lists(st.floats(0, 1e4), min_size=len(rows), max_size=len(rows)).map(np.array)
    optional = {name: draw(st.just(()) | column) if rows else () for name in ("ages", "cores_max", "memory_max")}
    return MetricsScraped(
        draw(times),
        draw(names),
        *columns[:3],
        *numbers,
        window=draw(st.floats(0.1, 1e5)),
        history=draw(st.booleans()),
        **optional,
    )


ooms = st.builds(ContainerOOMKilled, times, workloads, pods, names, counts, *[st.none() | memory] * 3, st.none() | times)
runs = st.builds(ContainerRun, times, st.none() | times, st.sampled_from(["OOMKilled", "Error", ""]))
seen = st.builds(ContainerSeen, names, amounts, amounts, counts, st.booleans(), last_run=st.none() | runs)
pod_changes = st.builds(
    PodChanged,
    times,
    workloads,
    pods,
    st.sampled_from(PodPhase),
    times,
    st.lists(seen, max_size=3).map(tuple),
    st.none() | names,
    st.dictionaries(texts, texts, max_size=3),
    st.sampled_from(ResizeState),
    st.none() | times,
    st.lists(seen, max_size=2).map(tuple),
    st.sampled_from(["", "Guaranteed"]),
)
pod_deletions = st.builds(PodDeleted, times, workloads, pods)
numbers = st.floats(-1e12, 1e12)
kept = st.builds(
    SavedHistogram, numbers, numbers, st.dictionaries(st.integers(0, 175).map(str), st.integers(0, 10_000), max_size=3)
)
checkpoints = st.builds(CheckpointSeen, times, workloads, names, names, texts, numbers, numbers, counts, kept, kept)
nodes = st.builds(
    NodeChanged, times, names, names, amounts, st.booleans(), st.booleans(), st.dictionaries(texts, texts, max_size=3)
)
node_removals = st.builds(NodeRemoved, times, names, names)
reports = st.builds(SourceReported, times, names, names, st.lists(names, max_size=3).map(tuple), st.floats(0.1, 1e5))
facts = scrapes() | ooms | pod_changes | pod_deletions | checkpoints | nodes | node_removals | reports

maybe_number = st.none() | st.floats(0, 1e6)
boosts = st.none() | st.builds(StartupBoost, st.sampled_from(BoostKind), maybe_number, maybe_number, st.floats(0, 1e6))
tunings = st.builds(Tuning, *[maybe_number] * 9, amounts)
bounds = st.lists(
    st.builds(
        ContainerPolicy,
        names,
        amounts,
        amounts,
        st.sampled_from(ContainerMode),
        st.none() | st.lists(names, max_size=2).map(tuple),
        st.sampled_from(ControlledValues),
        maybe_number,
        st.none() | memory,
        maybe_number,
        st.none() | counts,
        boosts,
        tunings,
    ),
    max_size=2,
).map(tuple)
several = st.lists(names, max_size=2).map(tuple)
selectors = st.lists(st.builds(Requirement, names, st.sampled_from(Operator), several), max_size=2).map(tuple)
vpas = st.builds(
    VpaChanged,
    times,
    names,
    names,
    names,
    times,
    st.none() | st.builds(TargetRef, names, names, texts),
    st.none() | selectors,
    texts,
    texts,
    counts,
    texts,
    st.none() | st.sampled_from(UpdateMode),
    st.none() | counts,
    maybe_number,
    st.lists(st.builds(EvictionRequirement, several, st.sampled_from(ChangeRequirement)), max_size=2).map(tuple),
    bounds,
    boosts,
    several,
    st.dictionaries(texts, texts, max_size=2),
)
limits = st.lists(
    st.builds(Limit, st.sampled_from(LimitType), *[amounts] * 4, st.dictionaries(names, st.floats(1, 1e6), max_size=2)),
    max_size=2,
).map(tuple)
rule_values = st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e16, 1e16) | texts | st.none()
policies = (
    vpas
    | st.builds(VpaRemoved, times, names, names, names)
    | st.builds(VerticalPolicyChanged, times, texts, texts, st.sampled_from(UpdateMode), bounds)
    | st.builds(VerticalPolicyRemoved, times, texts)
    | st.builds(LimitRangeChanged, times, names, names, names, limits)
    | st.builds(LimitRangeRemoved, times, names, names, names)
    | st.builds(StageRulesChanged, times, names, st.integers(0, 9), st.dictionaries(names, rule_values), texts)
    | st.builds(RevertRequested, times, workloads, times, by_container, by_container, texts)
    | st.builds(RevertEnded, times, workloads)
    | st.builds(ControlChanged, times, names, st.sampled_from(Mode), st.booleans(), texts, fractions)
)

last_ooms = st.builds(LastOomKill, times, pods, names, st.none() | memory, st.booleans(), places)
oom_sources = st.builds(OomSource, st.sampled_from(OomSourceState), texts, st.none() | times)
recommended = st.lists(st.builds(ContainerRecommendation, names, amounts, amounts, amounts, amounts), max_size=3).map(tuple)
ends = (texts, st.none() | times)
decided_conditions = st.builds(
    DecidedCondition, st.sampled_from(ConditionType), st.sampled_from(ConditionStatus), times, texts, texts
)
vpa_conditions = st.builds(
    VpaConditionsDecided,
    texts,
    times,
    names,
    names,
    names,
    texts,
    counts,
    st.lists(decided_conditions, max_size=3).map(tuple),
    st.none() | recommended,
    because,
    texts,
    st.booleans(),
)
decisions = (
    st.builds(
        RequestsRecommended,
        texts,
        times,
        workloads,
        recommended,
        because,
        st.none() | counts,
        st.none() | last_ooms,
        st.none() | oom_sources,
        st.none() | st.builds(CitedRules, texts, places),
    )
    | st.builds(
        ShadowRecommended,
        texts,
        times,
        workloads,
        texts,
        recommended,
        counts,
        texts,
        st.none() | st.builds(CitedRules, texts, places),
    )
    | st.builds(
        ShadowCompared,
        texts,
        times,
        workloads,
        texts,
        texts,
        st.lists(st.builds(ContainerDifference, names, amounts, amounts), max_size=3).map(tuple),
        counts,
        numbers,
        numbers,
        st.none() | st.builds(CitedRules, texts, places),
    )
    | st.builds(ResizePlanned, texts, times, times, workloads, pods, by_container, by_container, by_container, because, *ends)
    | st.builds(EvictionPlanned, texts, times, times, workloads, pods, by_container, because, *ends)
    | st.builds(UpdateRefused, texts, times, workloads, pods, texts, texts, because, texts)
    | vpa_conditions
)

_workload_keys = st.just("") | workloads.map(lambda workload: workload.key)
subjects = st.builds(Subject, st.sampled_from(SubjectKind), names, names, *[texts] * 3, _workload_keys)
_written = st.builds(StatusWritten, texts, times, names, names, names, texts, st.sampled_from(Result), texts)
_objects = st.builds(
    ObjectWritten,
    texts,
    times,
    *[names] * 4,
    texts,
    st.integers(0, 1 << 40),
    st.sampled_from(ObjectChange),
    st.sampled_from(Result),
    texts,
)
outcomes = (
    st.builds(
        ActionFinished,
        texts,
        times,
        texts,
        st.sampled_from(Action),
        st.sampled_from(Result),
        texts,
        subjects,
        st.sampled_from(OutcomeDetail),
    )
    | _written
    | _objects
)

events = facts | policies | decisions | outcomes | node_events.events
