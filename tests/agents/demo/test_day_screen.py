from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from agents.demo import event_narration
from agents.demo.day_screen import ProgressDisplay, ScreenFrame, bars, draw, plain
from agents.demo.day_state import DayState
from agents.demo.summary import hanging
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.decisions.recommendations import ContainerRecommendation, LastOomKill, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, Place, PodName, Workload
from schemas.units import Bytes, Cores
from tests.agents.demo.test_day_state import state_of

START = datetime(2026, 1, 5, 6, 30, tzinfo=UTC)
CART = Workload("demo", "shop", "Deployment", "cart")
STORY = ScreenFrame("a day", "what it is about", 0.25, "Ctrl-C ends everything")


def state() -> DayState:
    seen = ContainerSeen("app", requests=Amounts(Cores(2.0), Bytes(1 << 30)))
    pod = PodChanged(START, CART, PodName("shop", "cart-a", "a"), PodPhase.RUNNING, START, (seen,))
    scrape = MetricsScraped(START, "demo", (CART.key,), ("cart-a",), ("app",), [Cores(0.5)], [float(256 << 20)])
    return state_of([pod, scrape])


def drawn(width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(draw(state(), STORY))
    return console.export_text()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_view_fits_and_shows_what_is_requested_and_used(width: int) -> None:
    text = drawn(width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "05 Jan 06:30" in text
    assert "shop/cart" in text
    assert "2.0" in text
    assert "256 MiB" in text
    assert "0 OOM kills" in text


@pytest.mark.parametrize("height", [30, 40])
def test_the_whole_view_is_on_the_screen_with_its_last_action(height: int) -> None:
    console = Console(width=100, height=height, record=True, file=StringIO())
    shown = state()
    for number in range(12):
        workload = Workload("demo", "shop", "Deployment", f"app-{number}")
        seen = ContainerSeen("app", requests=Amounts(Cores(1.0), Bytes(1 << 30)))
        name = PodName("shop", f"app-{number}-a", f"u{number}")
        shown.apply(PodChanged(START, workload, name, PodPhase.RUNNING, START, (seen,)))
        shown.actions.append(f"action {number}")
    console.print(draw(shown, STORY, height=height))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert any("action 11" in line for line in lines)
    assert "Ctrl-C ends everything" in lines[-1]


def test_without_a_terminal_the_same_line_is_not_said_twice() -> None:
    out = StringIO()
    with ProgressDisplay(Console(file=out), live=False) as show:
        show.update(state(), STORY)
        show.update(state(), STORY, last=True)
    assert out.getvalue().count("05 Jan 06:30") == 1


def test_a_long_line_of_the_tree_goes_on_below_its_beginning() -> None:
    line = "│  ├─ 2026-01-05 00:01:00  pod changed: " + "word " * 12 + "end"
    first, *more = hanging(line, 60)
    assert first.startswith("│  ├─ 2026-01-05")
    assert all(part.startswith("│  │    word") for part in more[:-1])
    assert max(map(len, [first, *more])) <= 60
    assert hanging("│  · count: 4", 60) == ["│  · count: 4"]


@pytest.mark.parametrize(
    ("kills", "restarts", "said"),
    [
        (3, 3, ""),
        (3, 4, "3 kills and 4 restarts: of a container that is killed twice between two looks at the cluster, only the last"),
        (4, 3, "4 kills and 3 restarts: a killed container waits before it is started again"),
    ],
)
def test_why_kills_and_restarts_differ_is_said_where_they_do(kills: int, restarts: int, said: str) -> None:
    assert event_narration.kills_and_restarts(kills, restarts).startswith(said)
    assert bool(event_narration.kills_and_restarts(kills, restarts)) == bool(said)


def test_a_view_of_nothing_can_be_drawn() -> None:
    console = Console(width=100, record=True, file=StringIO())
    console.print(draw(DayState(), STORY))
    assert "starting" in console.export_text()


def test_the_plain_line_has_the_same_numbers() -> None:
    assert plain(state(), STORY).startswith(
        " 25%, 05 Jan 06:30: 2.0 cores requested, 0.5 used; 1.0 GiB memory requested, 256 MiB used; 0 OOM kills"
    )


def test_bars_fill_their_height_at_the_top_and_are_empty_at_zero() -> None:
    assert bars([0.0, 4.0, 8.0, 9.0], 8.0) == " ▄██"
    assert bars([1.0], 0.0) == ""


MIB = 1 << 20
AS_ASKED = (1.0, 100)


@pytest.mark.parametrize(
    ("requested", "lower", "target", "upper", "says"),
    [
        (AS_ASKED, (0.5, 50), (1.1, 102), (2.0, 200), "12% off what its usage asks for"),  # 0.1 / 1.0 + 2 / 100
        ((2.0, 100), (0.1, 50), (0.3, 100), (0.5, 200), "cpu 2.00 is above its upper bound 0.50"),
        ((1.0, 1), (0.5, 1024), (1.0, 1024), (2.0, 2048), "memory 1.0 MiB is below its lower bound 1.0 GiB"),
        (AS_ASKED, (0.5, 50), (1.0, 101), (2.0, 200), ""),  # 1 % is next to nothing
    ],
)
def test_the_reason_is_given_in_what_was_requested_and_what_was_recommended(
    requested: tuple[float, int],
    lower: tuple[float, int],
    target: tuple[float, int],
    upper: tuple[float, int],
    says: str,
) -> None:
    amounts = [Amounts(Cores(cores), Bytes(mib * MIB)) for cores, mib in (lower, target, upper, target)]
    recommended = RequestsRecommended("r", START, CART, (ContainerRecommendation("app", *amounts),), {})
    expect = {"app": Amounts(Cores(requested[0]), Bytes(requested[1] * MIB))}
    planned = EvictionPlanned("e", START, START, CART, PodName("shop", "cart-a", "a"), expect, {})
    assert event_narration.reason(planned, recommended) == says


def test_a_pod_that_was_killed_lately_is_changed_because_of_that_and_no_other_pod_is() -> None:
    kill = LastOomKill(
        START - timedelta(minutes=5), PodName("shop", "cart-a", "a"), "app", None, counted=True, place=Place("o", 0, 1)
    )
    recommended = RequestsRecommended("r", START, CART, (), {}, last_oom=kill)
    planned = EvictionPlanned("e", START, START, CART, kill.pod, {}, {})
    assert event_narration.reason(planned, recommended) == "it was OOM-killed at 06:25"
    assert event_narration.reason(replace(planned, pod=PodName("shop", "cart-b", "b")), recommended) == ""
    assert event_narration.reason(replace(planned, at=START + timedelta(hours=1)), recommended) == ""
