"""No test waits for luck: a sleep stands in a loop that looks for what it waits for, or here with its reason."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SLEEPS = {"time.sleep", "asyncio.sleep", "threading.Timer"}
STRIKERS = ("bench/", "torture/")
"""They measure for a time, or strike at moments that chance draws."""
A_PACE, A_MINUTE = 5, 60
"""Seconds."""
ASKS_AGAIN = {"wait_for", "urlopen"}
"""The one multiplies what it is told, and the other is asked again until it answers."""
REASONS = {
    "agents/cli/test_failures.py": "systems without /proc do not say whether a process listens to signals yet",
    "agents/processes/test_signals.py": "both are ended by the signal that is tested",
    "kafka/test_demo.py": "a demo at work is stopped or killed at any moment",
    "kafka/test_security.py": "nobody complains for a while longer, which a slow machine cannot spoil",
    "streams/clients/test_bounded_answers.py": "a server whose answer drips",
    "streams/serving/test_https_server.py": "a server that takes as long as it is asked to, and a pace of changes",
    "support/log_conformance.py": "a pace of writers, and a record that must be given whether poll waits for it yet or not",
    "support/metrics_api_asker.py": "questions at a rate",
}


def test_each_sleep_looks_for_what_it_waits_for_or_has_its_reason() -> None:
    """A loop that can end before its time, or a turn of the event loop."""
    lone = Counter(
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        for _ in _lone(ast.parse(path.read_text(encoding="utf-8")), looks=False)
    )
    assert {path for path in lone if not path.startswith(STRIKERS)} == set(REASONS)


def test_what_a_test_waits_for_may_take_a_minute_on_a_busy_machine() -> None:
    """A wait of less than a few seconds is a pace, and so is one that a loop asks. A process that starts takes half a minute."""
    short = [
        f"{path.relative_to(TESTS)}:{bound.lineno}"
        for path in TESTS.rglob("*.py")
        for bound in _short(ast.parse(path.read_text(encoding="utf-8")))
        if not str(path.relative_to(TESTS)).startswith(STRIKERS)
    ]
    assert short == []


def _short(tree: ast.AST) -> Iterator[ast.expr]:
    paces = {call for loop in ast.walk(tree) if isinstance(loop, ast.While) for call in ast.walk(loop.test)}
    for node in ast.walk(tree):
        bounds: list[ast.expr] = []
        if isinstance(node, ast.Call) and node not in paces and ast.unparse(node.func).rpartition(".")[2] not in ASKS_AGAIN:
            bounds += [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in {"wait", "join"}:
                bounds += node.args[:1]
        if isinstance(node, ast.BinOp) and ast.unparse(node.left) == "time.monotonic()":
            bounds.append(node.right)
        for bound in bounds:
            if isinstance(bound, ast.Constant) and isinstance(bound.value, int | float) and A_PACE <= bound.value < A_MINUTE:
                yield bound


def _lone(node: ast.AST, *, looks: bool) -> Iterator[ast.Call]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        looks = False
    if isinstance(node, ast.While | ast.For | ast.AsyncFor):
        looks = isinstance(node, ast.While) or any(isinstance(inner, ast.Return | ast.Break) for inner in ast.walk(node))
    if isinstance(node, ast.Call) and ast.unparse(node.func) in SLEEPS and not looks and ast.unparse(node.args[0]) != "0":
        yield node
    for inner in ast.iter_child_nodes(node):
        yield from _lone(inner, looks=looks)
