"""Whether a policy's functions are declared as they are asked for: names, arguments and types, by the syntax alone."""

import ast
from collections.abc import Iterator, Mapping

from agents.policies.policy_purity import Impurity

_DECLARED: Mapping[str, tuple[tuple[tuple[str, ...], ...], str]] = {
    "recommend": ((("EvidenceColumns",), ("EvidenceColumns", "PolicyState")), "RecommendedColumns"),
    "observe": ((("SampleColumns", "PolicyState"),), "None"),
    "explain": ((("EvidenceColumns", "PolicyState"),), "Mapping"),
}
"""The types of the arguments, in each form that is allowed, and of the answer."""


def signature_faults(tree: ast.Module) -> list[Impurity]:
    """What is wrong with the declarations of a policy's functions; empty if they are those that are asked for."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    named = {name: [node for node in functions if node.name == name] for name in _DECLARED}
    if len(named["recommend"]) != 1:
        return [Impurity(1, f"there must be one function at the top level: {_wanted('recommend')}")]
    wrong = [
        Impurity(node.lineno, f"it must be declared as {_wanted(name)}, without defaults and decorators")
        for name, nodes in named.items()
        for node in nodes
        if not _is_declared(node, name)
    ]
    names = {name for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) for name in _assigned(node)}
    if named["observe"] and "STATE" not in names:
        wrong.append(
            Impurity(
                named["observe"][0].lineno, "'observe' has nowhere to remember anything; declare STATE = (StateColumn(...), ...)"
            )
        )
    return wrong or [
        Impurity(node.lineno, f"'{node.name}' has an argument or an answer without a type")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and not _is_typed(node)
    ]


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_declared(function: ast.FunctionDef, name: str) -> bool:
    arguments = function.args
    plain = not (
        arguments.vararg
        or arguments.kwarg
        or arguments.kwonlyargs
        or arguments.posonlyargs
        or arguments.defaults
        or function.decorator_list
    )
    forms, answer = _DECLARED[name]
    returned = function.returns.value if isinstance(function.returns, ast.Subscript) else function.returns
    returns_none = isinstance(returned, ast.Constant) and returned.value is None
    return (
        plain
        and tuple(_name(arg.annotation) for arg in arguments.args) in forms
        and ("None" if returns_none else _name(returned)) == answer
    )


def _wanted(name: str) -> str:
    forms, answer = _DECLARED[name]
    words = {"EvidenceColumns": "usage", "SampleColumns": "samples", "PolicyState": "state"}
    forms_in_words = [f"def {name}({', '.join(f'{words[kind]}: {kind}' for kind in form)}) -> {answer}" for form in forms]
    return " or ".join(forms_in_words)


def _is_typed(function: ast.FunctionDef) -> bool:
    args = [arg for arg in (*function.args.args, *function.args.kwonlyargs) if arg.arg not in ("self", "cls")]
    return function.returns is not None and all(arg.annotation is not None for arg in args)


def _name(annotation: ast.expr | None) -> str:
    """The last part of a dotted or quoted name."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(value=str() as text):
            return text.rpartition(".")[2]
    return ""
