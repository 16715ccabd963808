"""The preset for demonstrations: a small shop whose people guessed their requests, as people do.

Four nodes, or two groups of them, nine deployments, 36 pods, every load shape. Some requests are far too large; those of `cart`
and `ledger` are too small, so that OOM kills happen within the first hours, and `checkout` never gets as far as serving: its
limit is less than it needs, so it is killed after each start. On groups of nodes there is a tenth deployment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from schemas.units import Bytes, Cores, Fraction, Seconds
from streams.simulated.cluster_spec import (
    ContainerTemplate,
    Shape,
    SimulatedDeployment,
    SimulatedNode,
    SimulatedNodeGroup,
    SimulatedScaling,
    amounts,
    batch,
    bursty,
    diurnal,
    jvm,
    leak,
    rush,
)
from streams.simulated.pod_admission import PodAdmission

GIB = 1 << 30

NODES: Sequence[SimulatedNode] = tuple(SimulatedNode(f"node-{i}", Cores(16.0), Bytes(32 * GIB)) for i in range(1, 5))


def _template(name: str, shape: Shape, requests: tuple[float, int], limits: tuple[float | None, int | None]) -> ContainerTemplate:
    return ContainerTemplate(name, shape, amounts(*requests), amounts(*limits))


# beside `web`, so that the demo has pods of two containers
_PROXY = _template("proxy", diurnal(low=0.01, high=0.06, memory=40, swing=8), (0.1, 128), (None, 256))

DEPLOYMENTS: Sequence[SimulatedDeployment] = (
    SimulatedDeployment(
        "shop",
        "web",
        8,
        (_template("web", diurnal(low=0.05, high=0.45, memory=180, swing=60), (2.0, 2048), (4.0, 4096)), _PROXY),
        keep=6,
    ),
    SimulatedDeployment(
        "shop", "search", 4, (_template("search", jvm(low=0.1, high=0.9, heap=1400), (2.0, 4096), (4.0, 6144)),), keep=3
    ),
    SimulatedDeployment(
        "shop",
        "cart",
        6,
        (
            _template(
                # a burst needs 330 MiB and the limit is 256, so the first burst is an OOM kill
                "cart",
                bursty(calm=0.08, burst=0.5, memory=150, burst_memory=330, often=Fraction(0.08)),
                (0.1, 160),
                (0.8, 256),
            ),
        ),
        keep=4,
    ),
    SimulatedDeployment(
        "payments",
        "gateway",
        4,
        (_template("gateway", leak(cores=0.15, memory=200, per_hour=40), (1.0, 512), (2.0, 768)),),
        keep=3,
    ),
    SimulatedDeployment(
        # the heap grows past its limit of 512 MiB while it warms up
        "payments",
        "ledger",
        3,
        (_template("ledger", jvm(low=0.05, high=0.4, heap=700), (0.25, 400), (1.0, 512)),),
        keep=2,
    ),
    SimulatedDeployment(
        "batch",
        "reports",
        3,
        # requests equal limits, so its pods are Guaranteed and a resize must keep them so
        (_template("reports", batch(every=Seconds(7200), busy=Seconds(1500), cores=1.5, memory=900), (3.0, 3072), (3.0, 3072)),),
    ),
    SimulatedDeployment(
        "batch",
        "thumbnails",
        3,
        (
            _template(
                "thumbnails",
                bursty(calm=0.02, burst=1.2, memory=90, burst_memory=260, often=Fraction(0.2)),
                (0.5, 512),
                (None, 1024),
            ),
        ),
    ),
    SimulatedDeployment(
        "platform",
        "metrics",
        3,
        (_template("metrics", diurnal(low=0.1, high=0.2, memory=420, swing=40), (1.0, 1024), (None, None)),),
        keep=2,
    ),
    SimulatedDeployment(
        "shop",
        "checkout",
        2,
        # it needs 165 MiB from its first moment, and may have 128
        (_template("checkout", diurnal(low=0.05, high=0.2, memory=165, swing=5), (0.25, 128), (1.0, 128)),),
        keep=1,
    ),
)


ORDERS = SimulatedDeployment(
    "shop",
    "orders",
    10,
    (_template("orders", rush(low=0.5, high=3.4, hour=12.0, memory=220), (0.5, 512), (None, 1024)),),
    keep=1,
    shared=True,
    scaling=SimulatedScaling(least=2, most=14),
)
"""Has as many pods as its rush at noon needs; an EHPA scales it."""

GROUPS: Sequence[SimulatedNodeGroup] = (
    SimulatedNodeGroup("general", "m5.2xlarge", most=12, desired=7, price=0.46),
    SimulatedNodeGroup("compute", "c5.2xlarge", most=12, desired=5, zone="eu-central-1b", price=0.388),
)
"""As many nodes as the requests of the busiest hour need."""
_PEAKS = {"web": 18, "search": 6}
"""Pods at three in the afternoon."""


@dataclass(frozen=True, slots=True)
class ShopSettings:
    """The name of the shop's cluster, the seed of its chance, its first moment, and the event time between two scrapes."""

    name: str
    seed: int
    start: datetime
    period: timedelta = timedelta(seconds=60)
    nodes: Sequence[SimulatedNode] = NODES
    deployments: Sequence[SimulatedDeployment] = DEPLOYMENTS
    groups: Sequence[SimulatedNodeGroup] = ()
    rules: PodAdmission | None = None


def with_groups(settings: ShopSettings) -> ShopSettings:
    """The shop on groups of nodes, with more visitors by day than by night, and with orders, which are scaled."""
    by_day = (*(replace(deployment, peak=_PEAKS.get(deployment.name, 0)) for deployment in settings.deployments), ORDERS)
    return replace(settings, nodes=(), groups=GROUPS, deployments=by_day)
