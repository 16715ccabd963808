"""The picture of one container's day: what stands in the log is drawn where it belongs, and why stands below it."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agents.demo import day_in_memory, day_picture
from agents.demo.day_picture import ContainerDay, DoneResize
from agents.demo.demo_settings import Day
from agents.settings import loading
from schemas.units import Bytes
from streams.log_context import LogContext

SVG = "{http://www.w3.org/2000/svg}"
START = datetime(2026, 1, 5, tzinfo=UTC)
MIB = 1 << 20


def drawn(day: ContainerDay, why: list[str]) -> ET.Element:
    return ET.fromstring(day_picture.drawn(day, why))  # noqa: S314  # our own


def test_each_kill_each_resize_and_each_step_is_drawn_at_its_time() -> None:
    hour = timedelta(hours=1)
    day = ContainerDay(
        "shop/Deployment/cart",
        "cart-<1>",
        "cart",
        used=[(START + hour * h, 100.0 * MIB) for h in range(25)],
        requests=[(START, Bytes(100 * MIB)), (START + hour * 6, Bytes(200 * MIB))],
        limits=[(START, Bytes(200 * MIB)), (START + hour * 6, Bytes(400 * MIB))],
        kills=[START + hour * 5],
        resizes=[DoneResize(START + hour * 6, "updater/1/1/resize/x")],
    )
    svg = drawn(day, ["a < b", "then: done"])
    assert svg.findtext(f"{SVG}title", "").endswith("; 1 OOM kill, 1 resize in place")
    found = {name: svg.findall(f"*[@class='{name}']") for name in ("use", "request", "limit", "kill", "resize", "leader", "why")}
    in_key = 1
    assert {name: len(parts) for name, parts in found.items()} == {
        "use": 1 + in_key,
        "request": 1 + in_key,
        "limit": 1 + in_key,
        "kill": 1 + in_key,
        "resize": 1 + in_key,
        "leader": 1,
        "why": 2,
    }
    quarter = 64 + (860 - 64) / 4
    assert float(found["resize"][0].attrib["cx"]) == quarter, "six hours of 24"
    assert f"H{quarter:.1f}V" in found["request"][0].attrib["d"]
    assert len(found["use"][0].attrib["points"].split()) == 25
    assert found["leader"][0].attrib["d"].startswith(f"M{quarter:.1f}")
    assert [part.text for part in found["why"]] == ["a < b", "then: done"]


def test_on_a_telephone_the_letters_are_larger_and_no_text_stands_on_another_or_beyond_the_paper() -> None:
    root = ET.parse(Path(__file__).parents[3] / "docs/pictures/container-day.svg").getroot()  # noqa: S314  # a file of ours
    [narrow] = re.findall(r"@media \(max-width: 600px\) \{(.*)\}\n", str(root.findtext(f"{SVG}style")))
    letters, title = map(int, re.findall(r"font-size: (\d+)px", narrow))
    assert min(letters, title) >= 20, "which are 8 px where the picture is 370 px wide"
    ends: dict[str, float] = {}
    for text in root.iter(f"{SVG}text"):
        kind = text.get("class", "")
        if f".{kind}," in narrow or f".{kind} {{ display: none" in narrow:
            continue
        # six tenths of a letter's height are more than a letter is wide
        wide = 0.6 * (title if kind == "title" else letters) * len(text.text or "")
        begin = float(text.attrib["x"]) - wide * {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor", ""), 0.0)
        line = text.attrib["y"]
        assert begin >= ends.get(line, 0.0), text.text
        ends[line] = begin + wide
        assert ends[line] <= 880, text.text


@pytest.mark.slow
def test_the_demo_draws_a_container_of_its_log_that_was_killed_and_resized(tmp_path: Path) -> None:
    day = Day(7, 1.0, 2, timedelta(minutes=1))
    log = day_in_memory.new_log(day)
    settings = loading.load(flags=day.in_one_process()).settings
    *_, _state = day_in_memory.played(day, settings, log)
    context = LogContext.of(log, day.topics)
    shown = day_picture.most_telling(context)
    assert shown is not None
    assert shown.explained is not None
    assert shown.explained.at >= shown.kills[0]
    why = day_picture.why_lines(context, shown)
    assert len(why) == day_picture._LINES
    assert shown.pod in why[0]
    assert why[-1].startswith("then:")
    path = day_picture.save(context, tmp_path)
    assert path is not None
    text = path.read_text()
    assert "prefers-color-scheme: dark" in text
    edges = [float(x) for x in re.findall(r"(?<=[ \"])(-?\d+\.\d),-?\d+\.\d", text)]
    assert edges
    assert min(edges) >= 64
    assert max(edges) <= 860
