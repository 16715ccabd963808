"""docs/incidents-tried.md against the tests that it names, and against the collected scenarios where they are at hand."""

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "incidents-tried.md"
NODE_CASES = Path(os.environ.get("ULLAGE_SHARED", ROOT.parent / "shared")) / "cases" / "nodes"
_TESTS = re.compile(r"\b(tests/[\w/]+\.py)(?:::(\w+))?")


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_each_test_that_the_page_names_exists() -> None:
    for file, name in set(_TESTS.findall(page())):
        path = ROOT / file
        assert path.is_file(), f"the page names '{file}', which does not exist"
        if name:
            assert f"def {name}(" in path.read_text(encoding="utf-8"), f"'{file}' has no '{name}'"


def test_each_collected_scenario_of_nodes_has_a_row() -> None:
    if not NODE_CASES.is_dir():
        pytest.skip(f"there are no scenarios at '{NODE_CASES}'; set ULLAGE_SHARED")
    body = ast.parse((NODE_CASES / "scenarios.py").read_text(encoding="utf-8")).body
    scenarios = {node.name for node in body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    scenarios |= {path.stem for path in NODE_CASES.glob("*.py")} - {"scenarios"}
    section = page().split("### Scenario by scenario")[1].split("\n## ")[0]
    assert scenarios == set(re.findall(r"`(\w+)`", section))
