from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from agents.demo import sentences
from agents.demo.picture import Picture, folded
from agents.demo.screen import Story, bars, draw, plain
from schemas.facts import ContainerSeen, MetricsScraped, PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores

START = datetime(2026, 1, 5, 6, 30, tzinfo=UTC)
CART = Workload("demo", "shop", "Deployment", "cart")
STORY = Story("a day", "what it is about", 0.25, "Ctrl-C ends everything")


def picture() -> Picture:
    seen = ContainerSeen("app", requests=Amounts(Cores(2.0), Bytes(1 << 30)))
    pod = PodChanged(START, CART, PodName("shop", "cart-a", "a"), PodPhase.RUNNING, START, (seen,))
    scrape = MetricsScraped(START, "demo", (CART.key,), ("cart-a",), ("app",), [Cores(0.5)], [float(256 << 20)])
    return folded([pod, scrape])


def drawn(width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(draw(picture(), STORY))
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


def test_a_view_of_nothing_can_be_drawn() -> None:
    console = Console(width=100, record=True, file=StringIO())
    console.print(draw(Picture(), STORY))
    assert "starting" in console.export_text()


def test_the_plain_line_has_the_same_numbers() -> None:
    assert plain(picture(), STORY).startswith(
        " 25%, 05 Jan 06:30: cpu 2.0 requested 0.5 used, memory 1.0 GiB requested 256 MiB used, 0 OOM kills"
    )


def test_bars_fill_their_height_at_the_top_and_are_empty_at_zero() -> None:
    assert bars([0.0, 4.0, 8.0, 9.0], 8.0) == " ▄██"
    assert bars([1.0], 0.0) == ""


@pytest.mark.parametrize(
    ("because", "said"),
    [
        ({"why": ["quick OOM"]}, "it was OOM-killed soon after its start"),
        ({"difference": 0.123, "containers": {}}, "12% off what its usage asks for"),
        (
            {"containers": {"a": {"requests": {"cpu": 2.0}, "lower": {"cpu": 0.1}, "upper": {"cpu": 0.5}}}, "difference": 3.0},
            "cpu 2.00 is above its upper bound 0.50",
        ),
        (
            {"containers": {"a": {"requests": {"memory": 1 << 20}, "lower": {"memory": 1 << 30}, "upper": {}}}},
            "memory 1.0 MiB is below its lower bound 1.0 GiB",
        ),
        ({}, ""),
    ],
)
def test_the_reason_is_told_in_the_numbers_of_the_decision(because: dict[str, object], said: str) -> None:
    assert sentences.reason(because) == said
