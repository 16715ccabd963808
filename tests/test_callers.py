"""No test without a product: each public name has a caller outside tests, where no library calls by names."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "streams", "agents")
HELD = (
    *("schemas.", "streams.publishing.", "streams.simulated.demo_shop.", "agents.logic.", "agents.engine.", "agents.run."),
    *("agents.backtest.", "agents.verify.", "agents.why.", "agents.policies.", "agents.settings.", "agents.terminal."),
    *("agents.demo.", "agents.processes."),
)


class Callers:
    """Which names of a module others use, by import or as an attribute of the module, and every attribute that is looked at."""

    def __init__(self) -> None:
        files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
        self.trees = {_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in files}
        self.attributes: Counter[str] = Counter()
        self._used: dict[str, set[str]] = defaultdict(set)
        for name, tree in self.trees.items():
            self._look_at(name, tree)

    def _look_at(self, name: str, tree: ast.Module) -> None:
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for imported in node.names:
                    whole = f"{node.module}.{imported.name}"
                    if whole in self.trees:
                        modules[imported.asname or imported.name] = whole
                    elif node.module != name:
                        self._used[node.module].add(imported.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                self.attributes[node.attr] += 1
                if isinstance(node.value, ast.Name) and node.value.id in modules:
                    self._used[modules[node.value.id]].add(node.attr)
            elif isinstance(node, ast.MatchClass):
                self.attributes.update(node.kwd_attrs)

    def missing(self, module: str) -> Iterator[str]:
        """The public names of a module that nothing but themselves and tests uses."""
        tree = self.trees[module]
        users: dict[str, set[int]] = defaultdict(set)
        for number, node in enumerate(tree.body):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name):
                    users[inner.id].add(number)
        for number, node in enumerate(tree.body):
            for name in _names(node):
                if not users[name] - {number} and name not in self._used[module]:
                    yield name
            if isinstance(node, ast.ClassDef):
                methods = [inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)]
                yield from (f"{node.name}.{name}" for name in methods if name[0] != "_" and not self.attributes[name])


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(node: ast.stmt) -> list[str]:
    """The public names that a statement of a module defines."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name] if node.name[0] != "_" else []
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name) and target.id[0] != "_"]


def test_each_public_name_has_a_caller_outside_tests() -> None:
    callers = Callers()
    held = [module for module in callers.trees if f"{module}.".startswith(HELD)]
    assert {f"{module}.{name}" for module in held for name in callers.missing(module)} == set()
