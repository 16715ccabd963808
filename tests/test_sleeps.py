"""No test waits for luck: a sleep stands in a loop that looks for what it waits for, or here with its reason."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SLEEPS = {"time.sleep", "asyncio.sleep", "threading.Timer"}
STRIKERS = ("bench/", "torture/")
"""They measure for a time, or strike at moments that chance draws."""
REASONS = {
    "agents/cli/test_failures.py": "systems without /proc do not say whether a process listens to signals yet",
    "agents/processes/test_signals.py": "both are ended by the signal that is tested",
    "kafka/test_demo.py": "a demo at work is stopped or killed at any moment",
    "kafka/test_security.py": "nobody complains for a while longer, which a slow machine cannot spoil",
    "streams/clients/test_bounded_body.py": "a server whose answer drips",
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


def _lone(node: ast.AST, *, looks: bool) -> Iterator[ast.Call]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        looks = False
    if isinstance(node, ast.While | ast.For | ast.AsyncFor):
        looks = isinstance(node, ast.While) or any(isinstance(inner, ast.Return | ast.Break) for inner in ast.walk(node))
    if isinstance(node, ast.Call) and ast.unparse(node.func) in SLEEPS and not looks and ast.unparse(node.args[0]) != "0":
        yield node
    for inner in ast.iter_child_nodes(node):
        yield from _lone(inner, looks=looks)
