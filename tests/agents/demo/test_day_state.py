from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agents.demo.day_state import DayState
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, LastOomKill, RequestsRecommended
from schemas.decisions.replica_plans import LoadForecast, MetricForecast, ReplicasPlanned, ScalingMode
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, AdmittedAmounts, ChangedContainer, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores
from tests.support import examples

START = datetime(2026, 6, 1, tzinfo=UTC)
MIB = 1 << 20
CART = Workload("demo", "shop", "Deployment", "cart")
WEB = Workload("demo", "shop", "Deployment", "web")


def state_of(events: Iterable[object]) -> DayState:
    state = DayState()
    for event in events:
        state.apply(event)
    return state


def pod(workload: Workload, uid: str, cpu: float, mib: int, *, restarts: int = 0) -> PodChanged:
    seen = ContainerSeen("app", requests=amounts(cpu, mib), restarts=restarts)
    return PodChanged(START, workload, PodName("shop", f"{workload.name}-{uid}", uid), PodPhase.RUNNING, START, (seen,))


def amounts(cpu: float, mib: int) -> Amounts:
    return Amounts(Cores(cpu), Bytes(mib * MIB))


def scrape(minutes: int, used: dict[str, tuple[float, float]]) -> MetricsScraped:
    return MetricsScraped(
        START + timedelta(minutes=minutes),
        "demo",
        tuple(f"demo/shop/Deployment/{pod.split('-')[0]}" for pod in used),
        tuple(used),
        tuple("app" for _ in used),
        [Cores(cores) for cores, _ in used.values()],
        [mib * MIB for _, mib in used.values()],
    )


def resize(number: int = 1) -> ResizePlanned:
    name = PodName("shop", "cart-a", "a")
    before, after = {"app": amounts(2.0, 1024)}, {"app": amounts(0.5, 256)}
    return ResizePlanned(f"updater/0/{number}/resize/a", START, START, CART, name, after, {}, before, {})


def outcome(
    decision: ResizePlanned | EvictionPlanned | ReplicasPlanned, action: Action, result: Result = Result.DONE
) -> ActionFinished:
    at = START + timedelta(hours=3, minutes=7)
    return ActionFinished(f"{decision.id}/x", at, decision.id, action, result, "fine", decision.subject)


def test_requested_and_used_are_summed_over_running_pods_by_workload() -> None:
    state = state_of([pod(CART, "a", 2.0, 1024), pod(CART, "b", 1.0, 512), pod(WEB, "c", 0.5, 100)])
    state.apply(scrape(1, {"cart-a": (0.5, 256), "cart-b": (0.25, 128)}))
    cart, web = state.rows()
    assert (cart.workload, cart.pods, cart.usage.cpu[:2]) == (CART, 2, (3.0, 0.75))
    assert cart.usage.memory[:2] == (1536 * MIB, 384 * MIB)
    assert (web.pods, web.usage.cpu[:2], web.target) == (1, (0.5, 0.0), None)
    assert state.now.cpu.requested == 3.5


def test_slack_is_the_share_of_requests_that_no_sample_used() -> None:
    state = state_of([pod(CART, "a", 2.0, 1000)])
    state.apply(scrape(1, {"cart-a": (0.5, 500)}))
    state.apply(pod(CART, "a", 1.0, 500))
    state.apply(scrape(2, {"cart-a": (0.4, 400)}))
    day = state.curve.total()
    assert day.cpu.slack == pytest.approx(1 - 0.9 / 3.0)
    assert day.memory.slack == pytest.approx(1 - 900 / 1500)


def test_a_slice_of_the_curve_is_the_average_of_its_scrapes_whatever_the_partitions() -> None:
    state = state_of([pod(CART, "a", 2.0, 100), pod(WEB, "b", 4.0, 100)])
    for minute in (1, 2):
        state.apply(scrape(minute, {"cart-a": (1.0, 50)}))
        state.apply(scrape(minute, {"web-b": (2.0, 50)}))
    state.apply(scrape(31, {"cart-a": (0.5, 50)}))
    first, second = state.curve.averages()
    assert first.cpu[:2] == (6.0, 3.0)
    assert second.cpu[:2] == (2.0, 0.5)


def test_an_amount_that_was_not_seen_adds_nothing_to_what_is_used() -> None:
    state = state_of([pod(CART, "a", 2.0, 100), scrape(1, {"cart-a": (float("nan"), 50)})])
    assert [amounts.used for amounts in state.rows()[0].usage] == [0.0, 50 * MIB]


def test_a_deleted_pod_is_gone_but_its_restarts_are_not() -> None:
    state = state_of([pod(CART, "a", 1.0, 100, restarts=3), PodDeleted(START, CART, PodName("shop", "cart-a", "a"))])
    state.apply(pod(CART, "b", 1.0, 100, restarts=2))
    assert (state.pods, state.restarts) == (1, 5)


def test_an_oom_kill_that_two_sources_report_counts_once() -> None:
    killed = ContainerOOMKilled(START, CART, PodName("shop", "cart-a", "a"), "app", 1, None, Bytes(256 * MIB))
    state = state_of([pod(CART, "a", 1.0, 100), killed, killed])
    assert (state.ooms, state.rows()[0].ooms) == (1, 1)
    assert list(state.actions) == ["00:00 OOM-killed cart-a: it reached its memory limit of 256 MiB"]


def test_a_resize_is_told_when_it_is_done_and_only_once() -> None:
    planned = resize()
    done = outcome(planned, Action.RESIZE)
    state = state_of([planned, planned, done, done])
    assert (state.decided["ResizePlanned"], state.done[Action.RESIZE]) == (1, 1)
    assert list(state.actions) == ["03:07 resized cart-a: cpu 2.00 → 0.50, memory 1.0 GiB → 256 MiB"]
    assert state.explained == {Action.RESIZE: planned.id}


def test_an_admission_is_told_when_its_pod_was_seen() -> None:
    subject = Subject(SubjectKind.POD, "demo", "cart-b", "shop", "b", workload=CART.key)
    given = AdmittedAmounts("o", "ReplicaSet/cart-1", (ChangedContainer("app", amounts(2.0, 1024), requests=amounts(0.5, 256)),))
    states = [
        state_of([ActionFinished("p", START, "d", Action.PATCH, result, "fine", subject, admitted=given)])
        for result in (Result.OFFERED, Result.LOST, Result.DONE)
    ]
    assert [state.done[Action.PATCH] for state in states] == [0, 0, 1]
    assert [list(state.actions) for state in states[:2]] == [[], []]
    assert list(states[2].actions) == ["00:00 new pod cart-b was given cpu 2.00 → 0.50, memory 1.0 GiB → 256 MiB"]


def test_an_eviction_tells_what_the_pod_returns_with() -> None:
    name = PodName("shop", "cart-a", "a")
    planned = EvictionPlanned("e", START, START, CART, name, {"app": amounts(0.1, 160)}, {})
    target = ContainerRecommendation("app", amounts(0.1, 1), amounts(0.2, 400), amounts(1, 999), amounts(0.2, 400))
    recommended = RequestsRecommended("r", START - timedelta(minutes=1), CART, (target,), {})
    state = state_of([recommended, planned, outcome(planned, Action.EVICT)])
    assert list(state.actions) == [
        "03:07 evicted cart-a, successor gets cpu 0.10 → 0.20, memory 160 MiB → 400 MiB (250% off what its usage asks for)"
    ]


@pytest.mark.parametrize(
    ("kill", "mib", "known", "told"),
    [
        ("2026-05-31T23:50:00Z", 400, True, True),
        ("2026-05-31T23:50:00Z", 100, True, False),
        ("2026-05-31T23:00:00Z", 400, True, False),
        ("2026-05-31T23:59:30Z", 400, False, False),
    ],
)
def test_a_decision_came_from_a_kill_if_it_gives_more_memory_soon_after_one_that_it_knew(
    kill: str, mib: int, known: bool, told: bool
) -> None:
    name = PodName("shop", "cart-a", "a")
    planned = EvictionPlanned("e", START, START, CART, name, {"app": amounts(0.1, 160)}, {})
    target = ContainerRecommendation("app", amounts(0.1, 1), amounts(0.2, mib), amounts(1, 999), amounts(0.2, mib))
    killed = LastOomKill(datetime.fromisoformat(kill), name, "app", None, counted=True, place=Place("oom-events", 0, 1))
    minute = timedelta(minutes=1)
    its_own = RequestsRecommended("r1", START - minute, CART, (target,), {}, last_oom=killed if known else None)
    later = RequestsRecommended("r2", START + minute, CART, (target,), {}, last_oom=killed)
    state = state_of([its_own, later, planned, outcome(planned, Action.EVICT)])
    assert state.after_kill == ("e" if told else None)


def test_a_plan_that_only_says_that_the_replicas_stay_scales_nothing() -> None:
    [shown] = [each for each in examples.EVENTS if isinstance(each, ReplicasPlanned)]
    stays = replace(shown, id="stays", carried_out_by=ScalingMode.DIRECT, current=5, replicas=5)
    scales = replace(stays, id="scales", current=3)
    state = state_of([scales, outcome(scales, Action.SCALE), stays, outcome(stays, Action.SCALE)])
    assert state.done[Action.SCALE] == 1


def test_what_was_refused_or_expired_is_counted_apart() -> None:
    left_alone = UpdateRefused("u", START, CART, PodName("shop", "cart-a", "a"), "budget", "too many pods are away", {})
    state = state_of([resize(), outcome(resize(), Action.RESIZE, Result.EXPIRED), left_alone])
    assert state.done[Action.RESIZE] == 0
    assert state.not_done[Result.EXPIRED] == 1
    assert (state.decided["UpdateRefused"], state.refusals["budget"]) == (1, 1)
    assert state.explained == {}


def test_the_mode_is_the_newest_control_record() -> None:
    assert DayState().mode is Mode.SHADOW
    assert state_of([ControlChanged(START, "demo", Mode.APPLY)]).mode is Mode.APPLY


def test_a_scaled_workload_is_shown_with_what_was_forecast_before_and_not_with_what_is_said_afterwards() -> None:
    def forecast(minutes: int, *values: float) -> LoadForecast:
        at = START + timedelta(minutes=minutes)
        metric = MetricForecast("resource.cpu", "s", at, 1800.0, values=tuple(2 * v for v in values), expected=values)  # type: ignore[arg-type]  # seconds
        return LoadForecast(f"f{minutes}", at, at, CART, "E", "shop", "cart", "u", 1, 3600.0, (metric,), {})  # type: ignore[arg-type]  # seconds

    state = state_of([pod(CART, "a", 1.0, 100), pod(CART, "b", 1.0, 100), pod(WEB, "c", 1.0, 100)])
    state.apply(forecast(0, 1.0, 2.0, 3.0))
    state.apply(scrape(10, {"cart-a": (0.5, 10), "cart-b": (0.25, 10), "web-c": (9.0, 10)}))
    state.apply(scrape(20, {"cart-a": (0.5, 10)}))
    state.apply(forecast(35, 7.0, 8.0, 9.0))  # says nothing new about the half hour that has begun
    first = int(START.timestamp()) // 1800
    [(name, slices)] = state.replicas.by_slice([first, first + 1, first + 2, first + 9]).items()
    assert name == CART.key
    assert [each.forecast for each in slices] == [1.0, 2.0, 8.0, None]
    assert (slices[0].used, slices[0].pods) == (0.625, 1.5)  # (0.75 + 0.5) / 2, and two pods, then one
    assert state.replicas.pods(CART.key) == 1.5
