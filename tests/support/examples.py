"""One event of every type, the same for ever: what the golden files of the wire show."""

from datetime import UTC, datetime, timedelta

import numpy as np

from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.plan_attestations import PlansAttested
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import (
    CitedRules,
    ContainerDifference,
    ContainerRecommendation,
    LastOomKill,
    MemoryLeak,
    MemoryLeakFound,
    OomSource,
    OomSourceState,
    RequestsRecommended,
    ShadowCompared,
    ShadowRecommended,
)
from schemas.decisions.replica_plans import (
    HpaConditions,
    LoadForecast,
    MetricForecast,
    MetricProposal,
    ProposalOrigin,
    ReplicasPlanned,
    ReplicasRefused,
    ScalingMode,
    UpcomingReplicas,
)
from schemas.decisions.vpa_conditions import (
    ConditionStatus,
    ConditionType,
    DecidedCondition,
    MemoryLimitFound,
    VpaConditionsDecided,
)
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import (
    AdmissionNote,
    AmountsBefore,
    BoostedContainer,
    ContainerRun,
    ContainerSeen,
    PodChanged,
    PodDeleted,
    PodPhase,
)
from schemas.facts.replica_scaling import (
    HpaCondition,
    HpaGone,
    HpaSeen,
    LoadHistoryRead,
    LoadQueryFailed,
    LoadScraped,
    ScaleSeen,
    series_id,
)
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    QuotaScope,
    ResourceQuotaChanged,
    ResourceQuotaRemoved,
    WebhookLeaseSeen,
)
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped, SavedHistogram
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import (
    Action,
    ActionFinished,
    AdmittedAmounts,
    ChangedContainer,
    ObjectChange,
    ObjectWritten,
    Result,
    StatusWritten,
)
from schemas.policies.control import (
    Author,
    ControlChanged,
    ControlSchedule,
    KnownBy,
    Mode,
    RevertEnded,
    RevertRequested,
    StageRulesChanged,
    rules_version,
)
from schemas.policies.ehpa import (
    EhpaChanged,
    EhpaRemoved,
    PredictionMetric,
    TimeSeriesPredictionChanged,
    TimeSeriesPredictionRemoved,
)
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from schemas.policies.scaling import (
    AlgorithmOptions,
    CronTrigger,
    DspOptions,
    FourierOptions,
    HistogramOptions,
    HpaBehavior,
    HpaScalingPolicy,
    HpaScalingRules,
    MetricSpec,
    MetricTarget,
    PercentileOptions,
    PredictionOptions,
    ScaleStrategy,
    UtilizationMetric,
)
from schemas.policies.vertical import (
    BoostKind,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    GuardOverrides,
    StartupBoost,
    Tuning,
    UpdateMode,
    VerticalPolicyChanged,
    VerticalPolicyRemoved,
)
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, Operator, Requirement, TargetRef, VpaChanged, VpaRemoved
from schemas.units import Fraction
from tests.support import node_events

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
SOON = AT + timedelta(minutes=10)
ALICE = Author("alice", KnownBy.KAFKA)
CART = Workload("prod", "shop", "Deployment", "cart")
POD = PodName("shop", "cart-7f9c-x2", "0c6d2f0e-5b1f-4a57-9d52-1d5f4ce5a001")
SMALL, LARGE = Amounts(0.25, 134217728), Amounts(0.5, 268435456)
OOM_RUN = ContainerRun(AT - timedelta(minutes=3), AT - timedelta(minutes=5), "OOMKilled")
RECOMMENDATION = "recommender/1/1767323045500/requests/prod/shop/Deployment/cart"

RULES = {"margin": 0.15, "memory_windows": 8, "maximum_cpu": None, "node_cap": False, "recommender": "default"}
CART_REF = TargetRef("Deployment", "cart", "apps/v1")
CPU_METRIC = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50))
REQUESTS_METRIC = MetricSpec(
    "Pods", "http_requests", MetricTarget("AverageValue", average_value="10"), match_labels={"path": "/cart"}
)
QUEUE_METRIC = MetricSpec(
    "Object",
    "queue_length",
    MetricTarget("Value", value="30"),
    expressions=(Requirement("queue", Operator.IN, ("orders",)),),
    described=TargetRef("Service", "orders", "v1"),
)
CPU_SERIES = series_id("resource.cpu", "")
DSP = AlgorithmOptions("dsp", DspOptions("1m", "7d", ("0.1",), (FourierOptions("0.2", "1.0", "0.0003", 3, 100),)))
PERCENTILE = AlgorithmOptions(
    "percentile",
    percentile=PercentileOptions(
        aggregated=True,
        history_length="24h",
        sample_interval="1m",
        percentile="0.95",
        margin_fraction="0.15",
        target_utilization="0.8",
        min_sample_weight="1e-5",
        histogram=HistogramOptions("100", "1e-10", "24h", "0.1"),
    ),
)
BEHAVIOR = HpaBehavior(
    HpaScalingRules((HpaScalingPolicy("Pods", 4, 15), HpaScalingPolicy("Percent", 100, 15)), "Max", 0),
    HpaScalingRules((HpaScalingPolicy("Percent", 10, 60),), "Min", 300, "0.05"),
)

LEAK = MemoryLeak(
    "app", POD, AT - timedelta(hours=9), 402653184, 41943040, 536870912, AT + timedelta(hours=3), 314572800, 471859200
)

EVENTS: tuple[Event, ...] = (
    MetricsScraped(
        AT,
        "prod",
        (CART.key, CART.key),
        (POD.name, POD.name),
        ("app", "proxy"),
        np.array([0.125, np.nan]),
        np.array([104857600.0, 7340032.5]),
    ),
    ContainerOOMKilled(AT, CART, POD, "app", 3, 134217728, None, started=AT - timedelta(minutes=2)),
    PodChanged(
        AT,
        CART,
        POD,
        PodPhase.RUNNING,
        AT - timedelta(hours=1),
        (ContainerSeen("app", SMALL, LARGE, 3, ready=True, last_run=OOM_RUN), ContainerSeen("proxy")),
        "node-1",
        {"tier": "web", "app": "cart"},
        started=AT - timedelta(minutes=59),
        init_containers=(ContainerSeen("migrate", SMALL), ContainerSeen("mesh", SMALL, ready=True, sidecar=True)),
        qos="Burstable",
        boosted=(BoostedContainer("app", SMALL, LARGE),),
        ready_since=AT - timedelta(minutes=58),
        requests=LARGE,
        admitted=AdmissionNote("5f1c0f3b9a7e2d44", (AmountsBefore("app", LARGE, LARGE),)),
        limits=LARGE,
        asked={"app": LARGE},
    ),
    PodDeleted(AT, CART, POD),
    CheckpointSeen(
        AT,
        CART,
        "cart",
        "app",
        "v3",
        1767225600.0,
        1767322800.0,
        1620,
        SavedHistogram(1767225600.0, 93.5, {"8": 10000, "36": 3333}),
        SavedHistogram(1767312000.0, 2.0, {"26": 10000}),
    ),
    HpaSeen(
        AT,
        CART,
        "shop",
        "ehpa-cart",
        AT - timedelta(days=1),
        CART_REF,
        max_replicas=10,
        min_replicas=2,
        metrics=(CPU_METRIC, QUEUE_METRIC),
        behavior=BEHAVIOR,
        current=3,
        desired=4,
        last_scale=AT - timedelta(minutes=9),
        conditions=(HpaCondition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size"),),
        owner_uid="6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        uid="6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a004",
        generation=2,
    ),
    HpaGone(AT, CART, "shop", "ehpa-cart"),
    ScaleSeen(AT, CART, 3, 2, "app=cart"),
    LoadScraped(
        AT, "prod", (CART.key, CART.key), (CPU_SERIES, series_id("pods.http_requests", "sum(http_requests)")), (1.25, 32.5)
    ),
    LoadHistoryRead(AT, CART, CPU_SERIES, AT - timedelta(days=7), 60.0, (1.0, None, 1.5)),
    LoadQueryFailed(AT, CART, CPU_SERIES, "the query gives 3 series; it must give one"),
    NodeChanged(AT, "prod", "node-1", Amounts(3.92, 15466496000), schedulable=False, labels={"zone": "a"}),
    NodeRemoved(AT, "prod", "node-1"),
    SourceReported(AT, "prod", "kube", ("cluster-changes", "oom-events", "pod-changes"), 30.0),
    HpaTargetChanged(AT, "prod", "shop", "cart", "Deployment", "cart", ("cpu",), (UtilizationMetric("cpu", "app"),)),
    HpaTargetRemoved(AT, "prod", "shop", "cart"),
    ResourceQuotaChanged(
        AT,
        "prod",
        "shop",
        "compute",
        {"limits.memory": "8Gi", "pods": "20"},
        {"limits.memory": "6Gi", "pods": "12"},
        (QuotaScope("NotBestEffort"), QuotaScope("PriorityClass", "In", ("high", "low"))),
    ),
    ResourceQuotaRemoved(AT, "prod", "shop", "compute"),
    WebhookLeaseSeen(AT, "prod", "ullage/ullage-webhook", alive=False, reason="there is no Lease 'ullage/ullage-webhook'"),
    VerticalPolicyChanged(
        AT,
        "prod/shop/*",
        "42",
        UpdateMode.RECREATE,
        (ContainerPolicy("*", Amounts(0.01, None), Amounts(4.0, 4294967296)),),
        GuardOverrides(budget=0.05, budget_schedules="0% @ 0 9 * * mon-fri for 8h", honor_opt_outs=False),
        by=ALICE,
        through="VerticalPolicy/shop/all",
    ),
    VerticalPolicyRemoved(AT, "prod/shop/*", ALICE, "VerticalPolicy/shop/all"),
    VpaChanged(
        AT,
        "prod",
        "shop",
        "cart",
        AT - timedelta(days=30),
        TargetRef("Deployment", "cart", "apps/v1"),
        (Requirement("app", Operator.IN, ("cart",)),),
        uid="6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a002",
        generation=7,
        resource_version="81234",
        by=Author("kubectl-edit at 2026-01-02T03:04:05+00:00", KnownBy.CLUSTER),
        update_mode=UpdateMode.IN_PLACE_OR_RECREATE,
        min_replicas=1,
        evict_after_oom=300.0,
        requirements=(EvictionRequirement(("cpu", "memory"), ChangeRequirement.HIGHER),),
        containers=(
            ContainerPolicy(
                "app",
                SMALL,
                LARGE,
                ContainerMode.AUTO,
                ("cpu", "memory"),
                ControlledValues.REQUESTS_ONLY,
                oom_ratio=1.5,
                oom_minimum=52428800,
                memory_window=7200.0,
                memory_windows=12,
                boost=StartupBoost(BoostKind.FACTOR, 2.0, duration=60.0),
                tuning=Tuning(target_memory_percentile=0.99, margin=0.1, minimum=SMALL),
            ),
            ContainerPolicy("proxy", mode=ContainerMode.OFF),
        ),
        boost=StartupBoost(BoostKind.QUANTITY, quantity=0.5, duration=30.0),
        recommenders=("ullage",),
        annotations={"ullage/*.margin": "0.2"},
    ),
    VpaRemoved(AT, "prod", "shop", "cart"),
    LimitRangeChanged(
        AT,
        "prod",
        "shop",
        "bounds",
        (Limit(LimitType.CONTAINER, SMALL, LARGE, LARGE, SMALL, {"cpu": 2.0}), Limit(LimitType.POD, most=Amounts(2.0, None))),
    ),
    LimitRangeRemoved(AT, "prod", "shop", "bounds"),
    EhpaChanged(
        AT,
        "prod",
        "shop",
        "cart",
        AT - timedelta(days=30),
        CART_REF,
        max_replicas=10,
        min_replicas=2,
        strategy=ScaleStrategy.PREVIEW,
        specific_replicas=4,
        metrics=(CPU_METRIC, REQUESTS_METRIC),
        crons=(CronTrigger("morning", "0 8 * * *", "0 10 * * *", 6, "Europe/Berlin", "opening hours"),),
        behavior=BEHAVIOR,
        prediction=PredictionOptions(3600, DSP),
        labels={"team": "checkout"},
        annotations={"metric-query.autoscaling.crane.io/pods.http_requests": "sum(http_requests)"},
        uid="6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        generation=3,
        resource_version="81236",
        queries={"resource.cpu": "sum(rate(container_cpu_usage_seconds_total[1m]))"},
    ),
    EhpaRemoved(AT, "prod", "shop", "cart"),
    TimeSeriesPredictionChanged(
        AT,
        "prod",
        "shop",
        "ehpa-cart",
        AT - timedelta(days=30),
        CART_REF,
        window_seconds=3600,
        metrics=(
            PredictionMetric("resource.cpu", "ResourceQuery", resource="cpu", algorithm=DSP),
            PredictionMetric("queue", "ExpressionQuery", expression="sum(queue)", algorithm=PERCENTILE),
        ),
        labels={"app.kubernetes.io/managed-by": "effective-hpa-controller"},
        owner_uid="6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        uid="6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a005",
        generation=1,
        resource_version="81237",
    ),
    TimeSeriesPredictionRemoved(AT, "prod", "shop", "ehpa-cart"),
    RevertRequested(AT, CART, AT, {"app": Amounts(0.5, 1 << 29)}, {"app": Amounts(1.0, None)}, "INC-4711", ALICE),
    RevertEnded(AT, CART, ALICE),
    ControlChanged(
        AT,
        "prod",
        Mode.PLAN,
        paused=True,
        reason="INC-4711",
        by=ALICE,
        through="ClusterControl/ullage",
        schedules=(ControlSchedule("0 9 * * mon-fri", 480, "Europe/Berlin", Mode.SHADOW, Fraction(0.05), reason="office hours"),),
    ),
    RequestsRecommended(
        RECOMMENDATION,
        AT,
        CART,
        (ContainerRecommendation("app", SMALL, LARGE, Amounts(1.0, 536870912), LARGE),),
        {"policy": "42", "capped": ["app"], "samples": {"app": 288}, "margin": 0.15},
        3,
        LastOomKill(AT - timedelta(hours=2), POD, "app", 134217728, counted=True, place=Place("ullage.oom-events.v1", 1, 9)),
        OomSource(OomSourceState.ALIVE, "kube", AT - timedelta(seconds=20)),
        CitedRules(rules_version("recommender", 1, RULES), Place("ullage.policies.v1", 1, 3)),
        "default",
        (LEAK,),
        {"memory": "big-1"},
    ),
    MemoryLeakFound("recommender/0/1767323045500/leak/prod/shop/Deployment/cart/app", AT, CART, LEAK, over=False, again=True),
    ShadowRecommended(
        "recommender/0/1767323045500/shadow/prod/shop/Deployment/cart",
        AT,
        CART,
        "steady@0f3a5b7c9d1e2f40",
        (ContainerRecommendation("app", SMALL, LARGE, LARGE, LARGE),),
        3,
        "it raised ZeroDivisionError: division by zero",
        CitedRules(rules_version("recommender", 1, RULES), Place("ullage.policies.v1", 1, 3)),
    ),
    ShadowCompared(
        "recommender/0/1767323045500/shadow-difference/prod/shop/Deployment/cart",
        AT,
        CART,
        "built-in",
        "steady@0f3a5b7c9d1e2f40",
        (ContainerDifference("app", SMALL, LARGE),),
        3,
        -0.75,
        402653184.0,
        CitedRules(rules_version("recommender", 1, RULES), Place("ullage.policies.v1", 1, 3)),
    ),
    StageRulesChanged(AT, "recommender", 1, RULES, rules_version("recommender", 1, RULES), ALICE),
    ResizePlanned(
        "updater/0/1767323045500/resize/u1",
        AT,
        SOON,
        CART,
        POD,
        {"app": LARGE},
        {},
        {"app": SMALL},
        {"budget": 0.1},
        RECOMMENDATION,
        AT + timedelta(minutes=5),
        {"app": LARGE},
    ),
    EvictionPlanned(
        "updater/0/1767323045500/evict/u1", AT, SOON, CART, POD, {"app": SMALL}, {"resize": "Infeasible"}, RECOMMENDATION
    ),
    UpdateRefused(
        "updater/0/1767323045500/refuse/u1",
        AT,
        CART,
        POD,
        "budget",
        "1 of 10 pods are away already",
        {"away": 1, "pods": 10},
        RECOMMENDATION,
    ),
    MemoryLimitFound(
        "conditions/1/1767323045500/memory-limit/prod/shop/Deployment/cart",
        AT,
        CART,
        AT - timedelta(hours=1),
        "UpdateMode",
        "Container 'app' is OOM-killed again and again and gets no more memory: the update mode 'Off' leaves running pods alone",
        {"policy": "prod/*", "update_mode": "Off"},
        over=False,
    ),
    VpaConditionsDecided(
        "conditions/1/1767323045500/conditions/prod/shop/cart",
        AT,
        "prod",
        "shop",
        "cart",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a002",
        7,
        (
            DecidedCondition(ConditionType.UNSUPPORTED, ConditionStatus.FALSE, AT),
            DecidedCondition(ConditionType.NO_PODS, ConditionStatus.UNKNOWN, AT),
            DecidedCondition(ConditionType.PROVIDED, ConditionStatus.TRUE, AT - timedelta(hours=1)),
        ),
        (ContainerRecommendation("app", SMALL, LARGE, Amounts(1.0, 536870912), LARGE),),
        {"target": CART.key, "pods": "unknown"},
        RECOMMENDATION,
    ),
    LoadForecast(
        "forecaster/1/1767323045500/forecast/prod/shop/EffectiveHorizontalPodAutoscaler/cart",
        AT,
        AT + timedelta(hours=1),
        CART,
        "EffectiveHorizontalPodAutoscaler",
        "shop",
        "cart",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        3,
        3600.0,
        (
            MetricForecast("resource.cpu", CPU_SERIES, AT, 300.0, (1.5, 1.75), (1.25, 1.5), "day, mean of 3", 86400.0, 0.041, AT),
            MetricForecast("pods.http_requests", "", AT, 300.0, reason="ShortHistory", message="1.5 days of history are too few"),
        ),
        {"samples": 4320},
    ),
    ReplicasPlanned(
        "forecaster/1/1767323045500/replicas/prod/shop/Deployment/cart",
        AT,
        SOON,
        CART,
        "prod/shop/EffectiveHorizontalPodAutoscaler/cart",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        3,
        ScalingMode.HPA,
        CART_REF,
        current=3,
        replicas=5,
        least=2,
        most=10,
        proposals=(
            MetricProposal("resource.cpu", ProposalOrigin.LIVE, 4, 310, 50, 62),
            MetricProposal("resource.cpu", ProposalOrigin.FORECAST, 5, 350, 250),
            MetricProposal("cron", ProposalOrigin.CRON, error="the schedule '0 25 * * *' names hour 25"),
        ),
        stabilized=5,
        upcoming=UpcomingReplicas(7, SOON),
        because={"limited": "True/DesiredWithinRange"},
        conditions=HpaConditions("True/SucceededRescale", "True/ValidMetricFound", "False/DesiredWithinRange"),
    ),
    ReplicasRefused(
        "forecaster/1/1767323045500/refuse/prod/shop/EffectiveHorizontalPodAutoscaler/cart-2",
        AT,
        CART,
        "prod/shop/EffectiveHorizontalPodAutoscaler/cart-2",
        "no-metric",
        "no metric can be read: no pod that counts has a sample; they may not be ready",
        {},
        HpaConditions("True/SucceededGetScale", "False/FailedGetResourceMetric"),
    ),
    ActionFinished(
        "updater/0/1767323045500/resize/u1/resize/u1",
        AT,
        "updater/0/1767323045500/resize/u1",
        Action.RESIZE,
        Result.REFUSED,
        "the node has 0.1 cores left",
        Subject.of_pod(CART, POD),
        admitted=AdmittedAmounts(
            "5f1c0f3b9a7e2d44", "ReplicaSet/cart-7f9c", (ChangedContainer("app", LARGE, LARGE, SMALL, LARGE),)
        ),
    ),
    PlansAttested(
        "updater/0/1767323045500/attest/0/0", AT, ("9f86d081884c7d659a2feaa0c55ad015", "a3bf4f1b2b0b822cd15d6c15b0f00a08")
    ),
    StatusWritten(
        "prod/shop/cart/status/81235", AT, "prod", "shop", "cart", RECOMMENDATION, Result.DONE, "RecommendationProvided"
    ),
    ObjectWritten(
        "prod/shop/EffectiveHorizontalPodAutoscaler/cart/HorizontalPodAutoscaler/81240",
        AT,
        "prod",
        "HorizontalPodAutoscaler",
        "shop",
        "ehpa-cart",
        "prod/shop/EffectiveHorizontalPodAutoscaler/cart",
        3,
        ObjectChange.UPDATED,
        Result.DONE,
        "maxReplicas was 50",
    ),
    *node_events.EXAMPLES,
)
