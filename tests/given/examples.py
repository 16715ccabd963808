"""One event of every type, the same for ever: what the golden files of the wire show."""

from datetime import UTC, datetime, timedelta

import numpy as np

from schemas.catalogue import Event
from schemas.decisions import ContainerRecommendation, EvictionPlanned, RequestsRecommended, ResizePlanned, UpdateRefused
from schemas.facts import ContainerOOMKilled, ContainerSeen, MetricsScraped, PodChanged, PodDeleted, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies import ContainerPolicy, ControlChanged, Mode, UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
SOON = AT + timedelta(minutes=10)
CART = Workload("prod", "shop", "Deployment", "cart")
POD = PodName("shop", "cart-7f9c-x2", "0c6d2f0e-5b1f-4a57-9d52-1d5f4ce5a001")
SMALL, LARGE = Amounts(0.25, 134217728), Amounts(0.5, 268435456)

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
    ContainerOOMKilled(AT, CART, POD, "app", 3, 134217728, None),
    PodChanged(
        AT,
        CART,
        POD,
        PodPhase.RUNNING,
        AT - timedelta(hours=1),
        (ContainerSeen("app", SMALL, LARGE, 3, ready=True), ContainerSeen("proxy")),
        "node-1",
        {"tier": "web", "app": "cart"},
        started=AT - timedelta(minutes=59),
    ),
    PodDeleted(AT, CART, POD),
    VerticalPolicyChanged(
        AT, "prod/shop/*", "42", UpdateMode.RECREATE, (ContainerPolicy("*", Amounts(0.01, None), Amounts(4.0, 4294967296)),)
    ),
    VerticalPolicyRemoved(AT, "prod/shop/*"),
    ControlChanged(AT, "prod", Mode.PLAN, paused=True, reason="INC-4711"),
    RequestsRecommended(
        "recommender/1/1767323045500/requests/prod/shop/Deployment/cart",
        AT,
        CART,
        (ContainerRecommendation("app", SMALL, LARGE, Amounts(1.0, 536870912), LARGE),),
        {"policy": "42", "capped": ["app"], "samples": {"app": 288}, "margin": 0.15},
    ),
    ResizePlanned("updater/0/1767323045500/resize/u1", AT, SOON, CART, POD, {"app": LARGE}, {}, {"app": SMALL}, {"budget": 0.1}),
    EvictionPlanned("updater/0/1767323045500/evict/u1", AT, SOON, CART, POD, {"app": SMALL}, {"resize": "Infeasible"}),
    UpdateRefused(
        "updater/0/1767323045500/refuse/u1", AT, CART, POD, "budget", "1 of 10 pods are away already", {"away": 1, "pods": 10}
    ),
    ActionFinished(
        "updater/0/1767323045500/resize/u1/resize/u1",
        AT,
        "updater/0/1767323045500/resize/u1",
        Action.RESIZE,
        Result.REFUSED,
        "the node has 0.1 cores left",
        CART,
        POD,
    ),
)
