"""The house: who owns our names, how long files and functions are, and where time may be read."""

import ast
import graphlib
import importlib.metadata
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "streams", "agents")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

LONGEST_FILE = 400
LONGEST_FUNCTION = 50


def _read(path: Path) -> tuple[str, ast.Module]:
    text = path.read_text()
    return text, ast.parse(text)


@cache
def trees() -> dict[str, tuple[str, ast.Module]]:
    """Text and syntax of every file, by its name."""
    return {str(path.relative_to(ROOT)): _read(path) for path in SOURCES}


@pytest.mark.parametrize("name", PACKAGES)
def test_nobody_else_owns_our_top_level_names(name: str) -> None:
    owners = set(importlib.metadata.packages_distributions().get(name, ()))
    assert owners <= {"ullage"}, f"'{name}' is also installed by {owners - {'ullage'}}: one of us shadows the other"


def test_a_file_has_one_idea_a_docstring_and_a_bounded_length() -> None:
    assert [name for name, (_, tree) in trees().items() if not ast.get_docstring(tree)] == []
    assert [name for name, (text, _) in trees().items() if len(text.splitlines()) > LONGEST_FILE] == []


def test_no_module_needs_itself_to_be_imported() -> None:
    """A circle works or not by which of its modules is imported first."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree for name, (_, tree) in trees().items()}
    needs = {name: _needed(tree, modules.keys() - {name}) for name, tree in modules.items()}
    assert list(graphlib.TopologicalSorter(needs).static_order())


def _needed(tree: ast.Module, modules: Collection[str]) -> set[str]:
    """The modules of ours that are imported when this one is; not those that a function imports when it is called."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {child if (child := f"{node.module}.{alias.name}") in modules else node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names.intersection(modules)


def test_functions_stay_short() -> None:
    assert [where for name, (_, tree) in trees().items() for where in _too_long(name, tree)] == []


def _too_long(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - len((docstring or "").splitlines())
            if lines > LONGEST_FUNCTION:
                yield f"{name}:{node.lineno} {node.name} has {lines} lines"


def test_no_file_is_named_for_having_no_place() -> None:
    assert [name for name in trees() if Path(name).stem in {"utils", "helpers", "common", "manager", "base", "misc"}] == []


def test_every_exception_from_the_lint_rules_has_its_reason_on_the_same_line() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    ignores = text.split("ignore = [", 1)[1].split("]\n", 1)[0].strip().splitlines()
    assert ignores
    assert all("#" in line for line in ignores)


def test_each_lock_has_a_hash_for_every_requirement_and_no_address_and_the_demo_has_a_part_of_it() -> None:
    locked: dict[str, set[str]] = {}
    for name in ("requirements.lock", "requirements-demo.lock"):
        text = (ROOT / name).read_text()
        requirements = [block for block in text.replace("\\\n", " ").splitlines() if "==" in block]
        assert len(requirements) > 40
        assert all("--hash=sha256:" in block for block in requirements)
        assert "://" not in text
        locked[name] = {block.split("--hash")[0].strip() for block in requirements}
    # The demo's begins with a pip that is quicker than that of Python 3.11, which fetches the others as well.
    [pip] = [requirement for requirement in locked["requirements-demo.lock"] if requirement.startswith("pip==")]
    assert locked["requirements-demo.lock"] - {pip} < locked["requirements.lock"]
    assert not {"moto", "mypy", "boto3"} & {block.split("==")[0] for block in locked["requirements-demo.lock"]}


def test_no_code_but_that_which_explains_looks_into_because() -> None:
    offenders = [
        f"{name}:{node.lineno}"
        for name, (_, tree) in trees().items()
        if not name.startswith("agents/why/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Attribute)
        if node.value.attr == "because"
    ]
    assert offenders == []


def test_the_epoch_stands_once() -> None:
    offenders = [
        f"{name}:{node.lineno}"
        for name, (_, tree) in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("datetime(1970, 1, 1, tzinfo=")
    ]
    assert [offender.partition(":")[0] for offender in offenders] == ["schemas/times.py"], offenders


def test_only_the_three_packages_are_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["packages"]["find"]["include"] == [
        f"{name}*" for name in ("agents", "streams", "schemas")
    ]


@pytest.mark.parametrize(
    "part",
    [
        "agents.processes.source_clock",
        "agents.app.worker",
        "agents.processes.one_process",
        "agents.commands.compare.what_if_command",
        "streams.clients.kube.quantities",
    ],
)
def test_a_process_that_asks_no_api_server_loads_no_client_for_it(part: str) -> None:
    """Kubernetes' client and what it loads take 10 MiB of each process."""
    assert _loaded(part, "kubernetes", "requests", "oauthlib", "cryptography") == []


def test_consumers_load_neither_what_serves_tls_nor_what_computes_replicas() -> None:
    """They take 8 and 12 MiB, and each consumer that needs one loads it when it is made."""
    assert _loaded("agents.processes.consumer", "numpy", "cryptography") == []
    assert _loaded("agents.processes.consumer_webhook", "numpy") == []
    assert _loaded("agents.processes.consumer_metrics_api", "agents.processes.admission_reviewer") == []


def test_a_process_loads_nothing_that_its_packages_load_in_vain() -> None:
    """What Kubernetes' client and structlog load and nobody here calls takes 5 and 3 MiB of each process."""
    assert _loaded("agents.processes.consumer_webhook", "requests", "requests_oauthlib", "websocket") == []
    started = [sys.executable, "-X", "importtime", "-m", "agents", "version"]
    loaded = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    assert "structlog" in loaded
    assert "rich.console" not in loaded


def _loaded(part: str, *heavy: str) -> list[str]:
    """Which of these packages a process has loaded that imports this module."""
    code = f"import sys, {part}; print(*{set(heavy)} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return answer.stdout.split()
