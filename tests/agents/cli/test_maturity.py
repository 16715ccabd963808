"""One table of how far each part is: README, the help of commands and the chart say the same."""

import re
from pathlib import Path

import pytest
import yaml

from agents.cli.program import PARTS, Part, app

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/ullage"


def test_readme_says_of_each_part_how_far_it_is_and_why() -> None:
    section = (ROOT / "README.md").read_text().partition("## How far each part is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+) \|$", section, re.MULTILINE)[1:]
    assert [(name, state) for name, state, _ in rows] == [(part.name, part.state) for part in PARTS]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_state_is_one_of_three_and_what_is_alpha_is_off_and_asks(part: Part) -> None:
    assert re.fullmatch("stable|beta|alpha, off until .+", part.state)
    for command in part.commands:
        assert f"{part.name}: {part.state}" in app[command].help_epilogue


def test_the_chart_calls_alpha_what_is_alpha_and_starts_nothing_of_it() -> None:
    text = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(text)
    for part in PARTS:
        if part.value:
            comment = re.search(rf"((?:^#.*\n)+){part.value}:", text, re.MULTILINE)
            assert comment is not None
            assert "alpha" in comment[1].lower()
            assert values[part.value] == "watch" if part.value == "mode" else not values[part.value]["enabled"]
            assert part.value in (CHART / "templates/NOTES.txt").read_text()
