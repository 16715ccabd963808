"""docs/incidents-tried.md against the tests that it names, and against the collected scenarios where they are at hand."""

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "incidents-tried.md"
CASES = Path(os.environ.get("ULLAGE_SHARED", ROOT.parent / "shared")) / "cases"
NODE_CASES = CASES / "nodes"
WORLDS = {"simworld.py", "README.md"}
"""What scripts of the cases are played in, and read first."""
_TESTS = re.compile(r"\b(tests/[\w/]+\.py)(?:::(\w+))?")


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_each_test_that_the_page_names_exists() -> None:
    for file, name in set(_TESTS.findall(page())):
        path = ROOT / file
        assert path.is_file(), f"the page names '{file}', which does not exist"
        if name:
            assert f"def {name}(" in path.read_text(encoding="utf-8"), f"'{file}' has no '{name}'"


def test_each_row_names_a_test_that_ci_collects() -> None:
    rows = [
        line.strip("|").split(" | ") for line in page().splitlines() if re.match(r"\| (?!kind|scenario|script|invariant)", line)
    ]
    assert len(rows) > 100
    for row in rows:
        files = [ROOT / file for file, _ in _TESTS.findall(row[-1])]
        tests = [file for file in files if file.name.startswith("test_") and "def test_" in file.read_text(encoding="utf-8")]
        assert tests or "make bench" in row[-1], f"no test stands in the row '{row[0].strip()}'"


def test_each_collected_script_has_a_row() -> None:
    if not CASES.is_dir():
        pytest.skip(f"there are no cases at '{CASES}'; set ULLAGE_SHARED")
    scripts = {path.name for path in CASES.rglob("*") if path.is_file() and "__pycache__" not in path.parts} - WORLDS
    section = page().split("## The collected scripts")[1].split("\n## ")[0]
    assert scripts == {
        name for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", row)
    }


def test_each_collected_scenario_of_nodes_has_a_row() -> None:
    if not NODE_CASES.is_dir():
        pytest.skip(f"there are no scenarios at '{NODE_CASES}'; set ULLAGE_SHARED")
    body = ast.parse((NODE_CASES / "scenarios.py").read_text(encoding="utf-8")).body
    scenarios = {node.name for node in body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    scenarios |= {path.stem for path in NODE_CASES.glob("*.py")} - {"scenarios"}
    section = page().split("### Scenario by scenario")[1].split("\n## ")[0]
    assert scenarios == set(re.findall(r"`(\w+)`", section))
