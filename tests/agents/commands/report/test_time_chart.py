"""The report's charts: where lines stand, where they stop, and what a mark asks."""

import re
from datetime import UTC, datetime, timedelta
from math import nan
from xml.etree import ElementTree as ET

from hypothesis import example, given
from hypothesis import strategies as st

from agents.commands.report.time_chart import ChartMark, ChartPanel, TimeLine, drawn

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
END = BEGIN + timedelta(hours=10)
LEFT, RIGHT, TOP, FOOT = 66, 930, 34, 164


def chart(*lines: TimeLine, marks: tuple[ChartMark, ...] = ()) -> str:
    return "\n".join(drawn("title", [ChartPanel("cores", lines)], marks, BEGIN, END))


def path(text: str, name: str) -> str:
    """The path of a line; the one before it is in the key."""
    return re.findall(rf'<path class="s {name}" d="([^"]*)"', text)[-1]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314  # what we have just drawn


def at(hours: float) -> datetime:
    return BEGIN + timedelta(hours=hours)


def test_a_value_stands_at_its_share_of_time_and_of_the_highest_level() -> None:
    text = chart(TimeLine("used", [(at(0), 0.0), (at(5), 2.0), (at(10), 4.0)]))
    middle = (LEFT + RIGHT) / 2
    assert path(text, "used") == f"M{LEFT}.0 {FOOT}.0L{middle:.1f} {(TOP + FOOT) / 2:.1f}L{RIGHT}.0 {TOP}.0"


def test_a_stepped_value_stands_until_the_next_and_the_last_to_the_end() -> None:
    text = chart(TimeLine("limit", [(at(0), 4.0), (at(5), 2.0)], stepped=True))
    assert path(text, "limit") == f"M{LEFT}.0 {TOP}.0H498.0V99.0H{RIGHT}"


@given(st.floats(min_value=0.0, allow_infinity=False))
@example(5e-324)
@example(1.7976931348623157e308)
def test_the_highest_value_of_any_size_is_drawn_within_the_panel_and_its_levels(most: float) -> None:
    text = chart(TimeLine("limit", [(at(0), most)]))
    height = float(path(text, "limit").split()[1].partition("H")[0])
    assert TOP <= height <= FOOT
    assert 2 <= len(parsed(text).findall(".//*[@text-anchor='end']")) <= 6


def test_nothing_is_drawn_where_there_is_no_value() -> None:
    text = chart(TimeLine("used", [(at(0), 4.0), (at(1), None), (at(2), nan), (at(5), 4.0), (at(10), 4.0)]))
    assert path(text, "used").count("M") == 2
    assert chart(TimeLine("used", [])).count('d=""') == 1


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=5))
def test_no_line_leaves_its_panel_and_the_levels_are_round(values: list[float]) -> None:
    text = chart(TimeLine("used", [(at(hour), value) for hour, value in enumerate(values)]))
    heights = [float(y) for y in re.findall(r"[ML][0-9.]+ ([-0-9.]+)", path(text, "used"))]
    assert all(TOP - 0.06 <= y <= FOOT + 0.06 for y in heights)
    levels = re.findall(r'text-anchor="end">([^ <]+)', text)
    assert 2 <= len(levels) <= 6
    numbers = [float(level) for level in levels]
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert f"{numbers[1]:e}"[0] in "125"
    parsed(text)


def test_a_mark_asks_why_and_says_when_to_eyes_and_to_readers_of_screens() -> None:
    text = chart(TimeLine("used", [(at(0), 1.0)]), marks=(ChartMark(at(5), "OOM kill", "shop/<b>", "a/b&c"),))
    [mark] = [part for part in parsed(text).iter() if part.get("data-why")]
    says = "2026-01-05 05:00:00 OOM kill: shop/<b>"
    assert (mark.get("data-why"), mark.get("aria-label"), mark.get("tabindex")) == ("a/b&c", says, "0")
    assert mark.get("transform") == "translate(498.0 33)"


def test_resting_on_a_moment_shows_the_values_that_stood_then() -> None:
    text = chart(TimeLine("requested", [(at(0), 1.0), (at(5), 2.0)], stepped=True), TimeLine("used", [(at(6), 0.25)]))
    titles = [(title.text or "").split("\n") for title in parsed(text).iter("title")]
    assert titles[0][1:] == ["requested 1 cores"]
    assert titles[-1] == ["2026-01-05 10:00 UTC", "requested 2 cores", "used 0.25 cores"]
