"""What the source of a policy could keep from one call to the next, by its syntax alone.

A worker, a backtest and a replay call a policy in other groups and another number of times, so memory makes other answers of
the same question.
"""

import ast
from collections.abc import Iterator

_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
_KEEPERS = frozenset(
    {"list", "dict", "set", "iter", "map", "filter", "zip", "enumerate", "reversed"}
    | {"defaultdict", "Counter", "deque", "OrderedDict", "ChainMap", "count", "cycle"}
)
"""Calls whose answer changes when it is used."""
_DISPLAYED = "a list, dict, set or generator outside of functions can keep something; make it a tuple"
_MADE = "what this call makes can keep something from one call to the next; make it a tuple"
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def kept(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line of each thing that can keep something, and a sentence that says so."""
    yield from _kept_by(tree.body)
    shared = {name for node in tree.body for name in _bound(node)}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    yield from (
                        (line, sentence.replace("outside of functions", "as a default")) for line, sentence in _lasting(default)
                    )
            yield from _written(node, shared)


def _kept_by(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.ClassDef):
            yield from _kept_by(node.body)
            continue
        for field, child in ast.iter_fields(node):
            if isinstance(child, ast.expr) and field != "annotation":
                yield from _lasting(child)
            elif isinstance(child, list):
                yield from _kept_by([statement for statement in child if isinstance(statement, ast.stmt)])


def _lasting(node: ast.AST) -> Iterator[tuple[int, str]]:
    """What an expression leaves behind."""
    if isinstance(node, _DISPLAYS):
        yield node.lineno, _DISPLAYED
    elif isinstance(node, ast.Call):
        # its arguments do not last: `np.array([1.0])` keeps no list
        if _last_name(node.func) in _KEEPERS:
            yield node.lineno, _MADE
    elif isinstance(node, ast.Subscript):  # Callable[[int], float] keeps no list
        yield from _lasting(node.value)
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _lasting(child)


def _written(function: _Function, shared: set[str]) -> Iterator[tuple[int, str]]:
    """Where a function writes into something that a name at the top level stands for."""
    args = function.args
    # a local of the same name hides what is outside
    own = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg) if arg is not None}
    own |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            root: ast.expr = node
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id in shared - own:
                yield (
                    node.lineno,
                    f"'{root.id}' is outside of functions, and what is written into it is kept from one call to the next",
                )


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.alias):
            yield part.asname or part.name.partition(".")[0]


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
