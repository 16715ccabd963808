"""Events of node scaling: one example of every type, and Hypothesis strategies that follow from the types of their fields."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    NodeScalingHalted,
    OfferedGroup,
    OfferedPods,
    OfferedTaint,
    RemovalReason,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.facts.nodes import (
    BufferShown,
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    InterruptionKind,
    NodeDetailsChanged,
    NodeDetailsRemoved,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    NodeTaint,
    NodeTemplateSeen,
    ScalingActivityFailed,
)
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import (
    AttachedVolume,
    ControllingOwner,
    LabelDemand,
    LabelQuery,
    NodeQuery,
    PodHostPort,
    PodPlacementChanged,
    PodPlacementRemoved,
    PodShapeSeen,
    PodToleration,
    RequiredPodAffinity,
    SpreadConstraint,
)
from schemas.facts.update_facts import (
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
)
from schemas.names import PodName

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
POD = PodName("shop", "cart-7f9c-x2", "0c6d2f0e-5b1f-4a57-9d52-1d5f4ce5a001")
_SIZE = {"cpu": 4000, "memory": 16 << 30, "pods": 110}
_CART = LabelQuery({"app": "cart"}, (LabelDemand("tier", "In", ("web",)),))
_ZONE_A = NodeQuery((LabelDemand("topology.kubernetes.io/zone", "In", ("eu-west-1a",)),))
_SPOT = NodeTaint("spot", "true", "NoSchedule")

EXAMPLES: tuple[Event, ...] = (
    NodeDetailsChanged(
        AT,
        "prod",
        "ip-10-0-0-1",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        AT - timedelta(hours=3),
        "aws:///eu-west-1a/i-0a1b2c3d",
        {"topology.kubernetes.io/zone": "eu-west-1a"},
        (_SPOT,),
        unschedulable=True,
        conditions={"Ready": "True"},
        allocatable={**_SIZE, "cpu": 3920},
        capacity=_SIZE,
        annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"},
        attachable={"ebs.csi.aws.com": 25},
    ),
    NodeDetailsRemoved(AT, "prod", "ip-10-0-0-1"),
    PodShapeSeen(
        AT,
        "prod",
        "a3f1",
        "shop",
        {"cpu": 250, "memory": 128 << 20, "pods": 1},
        {"app": "cart"},
        {"disk": "ssd"},
        (_ZONE_A,),
        (PodToleration("spot", "Exists"),),
        (PodHostPort(8080),),
        (RequiredPodAffinity("topology.kubernetes.io/zone", _CART, ("shop",)),),
        (RequiredPodAffinity("kubernetes.io/hostname", _CART, namespace_selector=LabelQuery({"team": "a"})),),
        (SpreadConstraint("topology.kubernetes.io/zone", 1, _CART),),
        (
            AttachedVolume("ebs.csi.aws.com", "vol-1", (_ZONE_A,), exclusive=True),
            AttachedVolume("ebs.csi.aws.com", "data", own=True, missing="claim 'shop/data' is not bound yet"),
        ),
        ControllingOwner("ReplicaSet", "cart-7f9c", "apps/v1"),
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        priority=1000,
        grace=30.0,
        local=("cache",),
    ),
    PodPlacementChanged(AT, "prod", POD, "a3f1", PodPhase.PENDING, AT - timedelta(seconds=3), unschedulable="Unschedulable"),
    PodPlacementRemoved(AT, "prod", POD),
    PodDisruptionBudgetChanged(AT, "prod", "shop", "cart", LabelQuery({"app": "cart"}), 1, 3, 2, 3),
    PodDisruptionBudgetRemoved(AT, "prod", "shop", "cart"),
    ReplicaControllerChanged(
        AT,
        "prod",
        "shop",
        "ReplicaSet",
        "cart-7f9c",
        3,
        ControllingOwner("Deployment", "cart", "apps/v1"),
        "exceeded quota: q",
        PodShapeSeen(AT, "prod", "b2c4", "shop", {"cpu": 100}),
        "its backoffLimit of 0 allows no failed pod",
    ),
    ReplicaControllerRemoved(AT, "prod", "shop", "ReplicaSet", "cart-7f9c"),
    ExpanderPrioritiesSeen(
        AT,
        "prod",
        "kube-system",
        "cluster-autoscaler-priority-expander",
        {"10": (".*t2\\.large.*", ".*t3\\.large.*"), "50": (".*m4\\.4xlarge.*",)},
        unsupported="",
    ),
    ObjectMetadataChanged(AT, "prod", "Namespace", "shop", "shop", {"team": "a"}, {"ullage/protected": "true"}),
    ObjectMetadataRemoved(AT, "prod", "ServiceAccount", "shop", "cart"),
    ExpanderPrioritiesGone(AT, "prod", "kube-system", "cluster-autoscaler-priority-expander"),
    CapacityBufferSeen(
        AT,
        "prod",
        "shop",
        "headroom",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a009",
        "buffer.x-k8s.io/active-capacity",
        "small",
        PodShapeSeen(AT, "prod", "b2c4", "shop", {"cpu": 100}),
        1,
        "Deployment",
        "cart",
        3,
        20,
        {"cpu": 8000, "memory": 16 << 30},
        BufferShown(ready=True, replicas=3, template="small", generation=1, message="ready"),
    ),
    CapacityBufferGone(AT, "prod", "shop", "headroom"),
    NodeGroupSeen(
        AT,
        "prod",
        "workers-a",
        1,
        20,
        3,
        NodeTemplateSeen({"kubernetes.io/arch": "amd64"}, (_SPOT,), _SIZE, _SIZE),
        zones=("eu-west-1a",),
        instance_types=("m5.xlarge", "m5a.xlarge"),
        options={"scaledownunneededtime": "5m"},
        price=0.214,
        spot=True,
        launch_version="lt-0abc:7",
        suspended=("AZRebalance",),
        provision=600.0,
        own_versions=("lt-0def:2",),
    ),
    NodeGroupGone(AT, "prod", "workers-a"),
    NodeInstanceSeen(
        AT,
        "prod",
        "workers-a",
        "i-0a1b2c3d",
        "aws:///eu-west-1a/i-0a1b2c3d",
        "eu-west-1a",
        "InService",
        "Healthy",
        "m5.xlarge",
        "lt-0abc:6",
        spot=True,
        launched=AT - timedelta(hours=3),
    ),
    NodeInstanceGone(AT, "prod", "workers-a", "i-0a1b2c3d"),
    ScalingActivityFailed(
        AT,
        "prod",
        "workers-a",
        "f0d1",
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient m5.xlarge capacity",
        "m5.xlarge",
        "eu-west-1a",
        AT - timedelta(seconds=20),
    ),
    InstanceInterruptionNoticed(
        AT, "prod", "i-0a1b2c3d", InterruptionKind.SPOT, "7bf73129-1428-4cd3-a780-95db273d1602", AT - timedelta(seconds=2)
    ),
    ScaleUpPlanned(
        "scaler/0/1767323045500/scale-up/workers-a",
        AT,
        AT + timedelta(minutes=1),
        "prod",
        "workers-a",
        3,
        5,
        11,
        ("shop/cart-7f9c-x2",),
        "least-waste",
        {"per_node": 6},
    ),
    NodeRemovalPlanned(
        "scaler/0/1767323045500/remove/ip-10-0-0-1",
        AT,
        AT + timedelta(minutes=20),
        "prod",
        "ip-10-0-0-1",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        "aws:///eu-west-1a/i-0a1b2c3d",
        "i-0a1b2c3d",
        "workers-a",
        RemovalReason.UNNEEDED,
        (POD,),
        (),
        600.0,
        720.0,
        {"utilization": 0.2, "threshold": 0.5},
    ),
    SizeCorrectionPlanned(
        "scaler/0/1767323045500/correct-size/workers-a",
        AT,
        AT + timedelta(minutes=2),
        "prod",
        "workers-a",
        4,
        1,
        {"least": 0, "most": 10, "failure": "InsufficientInstanceCapacity"},
    ),
    NodeScalingHalted(
        "scaler/0/1767323045500/halted/workers-a",
        AT,
        "prod",
        "workers-a",
        "BackedOff",
        "it is left out, because its last growth failed with InsufficientInstanceCapacity",
        {"desired": 4, "nodes": 1},
    ),
    BufferStatusPlanned(
        "scaler/0/1767323045500/buffer/prod%2Fshop%2Fheadroom",
        AT,
        AT + timedelta(minutes=2),
        "prod",
        "shop",
        "headroom",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a009",
        ready=True,
        replicas=3,
        template="small",
        template_generation=1,
        message="ready",
        because={"replicas": 3, "percentage": None, "limits": {"cpu": 8000}},
    ),
    SoftTaintPlanned(
        "scaler/0/1767323045500/soft-taint/ip-10-0-0-1",
        AT,
        AT + timedelta(minutes=2),
        "prod",
        "ip-10-0-0-1",
        "6f1c2f6e-5b1f-4a57-9d52-1d5f4ce5a003",
        tainted=True,
        because={"utilization": 0.2, "threshold": 0.5},
    ),
    ExpanderAsked(
        "scaler/0/1767323045500/ask-expander/prod%2Fgroups",
        AT,
        AT + timedelta(seconds=10),
        "prod",
        (
            OfferedGroup(
                "workers-a",
                2,
                (3,),
                {"topology.kubernetes.io/zone": "eu-west-1a"},
                (OfferedTaint("dedicated", "batch", "NoSchedule"),),
                {"cpu": 4000, "memory": 17179869184, "pods": 110},
                {"cpu": 3920, "memory": 16106127360, "pods": 110},
            ),
        ),
        (OfferedPods("shop", {"app": "cart"}, {"disk": "ssd"}, {"cpu": 500, "memory": 1073741824}, ("cart-7f9c-x2",)),),
        {"waiting": 3, "expanders": "grpc,least-waste"},
    ),
    ScaleRefused(
        "scaler/0/1767323045500/refuse/object/shop:cart",
        AT,
        "prod",
        Subject.of_object("prod", "ReplicaSet", "shop", "cart", "1"),
        "NoGroupFits",
        "no node group's new node would take these pods: NodeResourcesFit",
        3,
        {"pods": 3},
        example="shop/cart-7f9c-x2",
    ),
)

texts = st.text(max_size=12)
_times = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  # made aware by timezones
_PLAIN: Mapping[object, st.SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: st.integers(-(2**31), 10**16),
    float: st.floats(-1e16, 1e16),
    datetime: _times,
    object: texts | st.integers(-(2**53), 2**53) | st.booleans() | st.lists(texts, max_size=2),
    type(None): st.none(),
}


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type that the wire can carry."""
    hint = getattr(hint, "__supertype__", hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple:
        return st.lists(of_type(parts[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(texts, of_type(parts[1]), max_size=2)
    if parts:
        return st.one_of([of_type(part) for part in parts])
    if is_dataclass(hint):
        kinds = get_type_hints(hint)
        return st.builds(
            hint, **{field.name: st.deferred(lambda name=field.name: of_type(kinds[name])) for field in fields(hint)}
        )
    return st.sampled_from(hint) if isinstance(hint, type) and issubclass(hint, StrEnum) else _PLAIN[hint]


events: st.SearchStrategy[Event] = st.one_of([of_type(type(event)) for event in EXAMPLES])
