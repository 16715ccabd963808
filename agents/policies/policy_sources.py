"""Policies written as code: found by path or entry point, checked, loaded, and named by the digest of their source.

A package offers a policy in the group `ullage.policies`, as `steady = "my_package.steady"`: a module that is a policy file. Its
source is read, never imported, so a file and an entry point are treated alike. The text that an operator gives says where the
source is; the rules in the log name the policy `steady@` and the digest, which is the same on every machine.
"""

import ast
import builtins
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from agents.logic.vertical.policy_code import (
    STATE_KINDS,
    CodePolicy,
    EvidenceColumns,
    PolicyState,
    Recommend,
    RecommendedColumns,
    StateColumn,
)
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN, VerticalSettings
from agents.policies import policy_limits, policy_purity
from agents.policies.policy_limits import PolicyLimits
from agents.policies.policy_purity import Impurity
from streams.errors import BadInput

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
    # only then: the types of the main functions say most of what is wrong with the others
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
    # `Mapping[str, object]` is declared by its base, for its arguments do not matter here
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


ENTRY_POINTS = "ullage.policies"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LONGEST = 1 << 20
_WIDEST = 1024
"""Numbers of one column of a policy's state."""
_MOST_STATE = 8192
"""Bytes of a policy's state, for each container."""


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The source of a policy as it was read. `where` is its file."""

    name: str
    where: Path
    text: str

    @property
    def reference(self) -> str:
        """Its name and 16 hexadecimal digits that follow from the source alone."""
        # of the text alone: the same policy has the same name on every machine
        return f"{self.name}@{blake2b(self.text.encode(), digest_size=8).hexdigest()}"

    def faults(self) -> Sequence[Impurity]:
        """What is wrong with it, by line: no Python, an impure import or call, a wrong declaration."""
        try:
            tree = ast.parse(self.text, str(self.where))
        except SyntaxError as error:
            return [Impurity(error.lineno or 1, f"this is no Python: {error.msg}")]
        except ValueError as error:
            return [Impurity(1, f"this is no Python: {error}")]
        return [*policy_purity.impurities(tree), *signature_faults(tree)]


@dataclass(frozen=True, slots=True)
class ResolvedPolicies:
    """Settings whose policies are named by references, and those policies."""

    settings: VerticalSettings
    policies: Mapping[str, CodePolicy]

    def policy_of(self, reference: str) -> CodePolicy | None:
        """The policy of this reference; None for the built-in estimator. Raises BadInput."""
        if reference in ("", BUILT_IN):
            return None
        if reference == ADAPTIVE:
            from agents.logic.adaptive import adaptive_policy

            return adaptive_policy.POLICY
        if reference not in self.policies:
            raise BadInput(
                f"the rules in the log name the policy '{reference}', and this process has {', '.join(self.policies) or 'none'}: "
                "give it the file that was used then, with --set vertical.policy=FILE or --set vertical.shadow_policy=FILE"
            )
        return self.policies[reference]


def resolved(settings: VerticalSettings) -> ResolvedPolicies:
    """The policies that settings name, read and checked. Raises BadInput that names file, line and reason."""
    policies: dict[str, CodePolicy] = {}
    references = []
    for text in (settings.policy, settings.shadow_policy):
        if text in ("", BUILT_IN, ADAPTIVE):
            references.append(text)
            continue
        policy = load(read(text))
        policies[policy.reference] = policy
        references.append(policy.reference)
    decides, shadow = references
    named = replace(settings, policy="" if decides == BUILT_IN else decides, shadow_policy=shadow)
    return ResolvedPolicies(named, policies)


def read(text: str) -> PolicySource:
    """The source that a path (`.py`) or the name of an entry point leads to. Raises BadInput."""
    name, file = (Path(text).stem, Path(text)) if text.endswith(".py") else (text, _file_of(text))
    check_name(name, text)
    try:
        with file.open("rb") as opened:
            # one byte more than allowed shows that there are more
            content = opened.read(_LONGEST + 1)
    except OSError as error:
        raise BadInput(f"the policy file '{file}' cannot be read: {error.strerror}") from error
    if len(content) > _LONGEST:
        raise BadInput(f"the policy file '{file}' has more than {_LONGEST} bytes; a policy has at most so many")
    try:
        return PolicySource(name, file, content.decode())
    except UnicodeDecodeError as error:
        raise BadInput(f"the policy file '{file}' is not UTF-8: {error.reason} at byte {error.start}") from error


def check_name(name: str, text: str) -> None:
    """Whether the policy that is given as `text` can have this name. Raises BadInput."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"the policy '{text}' has no name that can stand in the log: letters, digits, '.', '_' and '-', at most 63"
        )


def _file_of(name: str) -> Path:
    """The file of the module that an installed package offers under this name."""
    modules = offered()
    if name not in modules:
        names = ", ".join(sorted(modules)) or "none"
        raise BadInput(f"'{name}' is no policy: it is no .py file, and no entry point of '{ENTRY_POINTS}'; there are: {names}")
    try:
        spec = importlib.util.find_spec(modules[name])
    except ImportError as error:
        raise BadInput(f"the entry point '{name}' names {modules[name]}, which is not there: {error}") from error
    if spec is None or spec.origin is None:
        raise BadInput(f"the entry point '{name}' names {modules[name]}, which is no file")
    return Path(spec.origin)


def offered() -> Mapping[str, str]:
    """The policies of installed packages: the module of each name."""
    return {point.name: point.module for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def load(source: PolicySource) -> CodePolicy:
    """The policy of a source that `faults` has nothing against. Raises BadInput."""
    faults = source.faults()
    if faults:
        more = f", and {len(faults) - 1} more; see `ullage policy lint {source.where}`" if len(faults) > 1 else ""
        raise BadInput(f"the policy '{source.where}' is refused: {faults[0]}{more}")
    namespace: dict[str, Any] = {"__builtins__": _guarded_builtins(), "__name__": f"ullage_policy_{source.name}"}
    limits = policy_limits.IN_FORCE.get()
    try:
        with limits.held() if isinstance(limits, PolicyLimits) else nullcontext():
            # else the `from __future__` lines of this file would hold for the policy
            code = compile(source.text, str(source.where), "exec", dont_inherit=True)
            exec(code, namespace)  # noqa: S102  # a policy is code; it is as trusted as this program
        policy = CodePolicy(
            source.reference,
            _with_state(namespace["recommend"]),
            namespace.get("observe"),
            namespace.get("explain"),
            _columns(namespace.get("STATE", ())),
            _version(namespace.get("VERSION", 1)),
        )
    # the limit of a trial, which says more than that it cannot be loaded
    except MemoryError:
        raise
    except Exception as error:
        raise BadInput(f"the policy '{source.where}' cannot be loaded: {type(error).__name__}: {error}") from error
    if limits is None:
        return policy
    limited = limits.limited if isinstance(limits, PolicyLimits) else partial(limits.watched, source.reference)
    return replace(
        policy,
        recommend=limited(policy.recommend),
        observe=policy.observe and limited(policy.observe),
        explain=policy.explain and limited(policy.explain),
        strict=isinstance(limits, PolicyLimits),
    )


def _with_state(recommend: Callable[..., RecommendedColumns]) -> Recommend:
    """The function of a policy; one that asks for no state gets none."""
    if len(signature(recommend).parameters) > 1:
        return recommend

    def call(usage: EvidenceColumns, _state: PolicyState) -> RecommendedColumns:
        return recommend(usage)

    return call


def _columns(declared: object) -> tuple[StateColumn, ...]:
    """The columns of a policy's state. Raises ValueError."""
    columns = declared if isinstance(declared, tuple) else ()
    if not isinstance(declared, tuple) or not all(isinstance(column, StateColumn) for column in columns):
        raise ValueError("STATE must be a tuple of StateColumn")
    names = [column.name for column in columns]
    for column in columns:
        if not _COLUMN.fullmatch(column.name):
            raise ValueError(f"the column '{column.name}' of STATE must be named by letters, digits and '_', at most 63")
        if names.count(column.name) > 1:
            raise ValueError(f"STATE has two columns '{column.name}'")
        if column.kind not in STATE_KINDS:
            raise ValueError(
                f"the column '{column.name}' of STATE is of {column.kind}; a number of numpy is expected, as float64"
            )
        if not 0 <= column.width <= _WIDEST:
            raise ValueError(f"the column '{column.name}' of STATE has a width of {column.width}; 0 to {_WIDEST} are possible")
    if sum(column.bytes for column in columns) > _MOST_STATE:
        raise ValueError(f"STATE takes more than {_MOST_STATE} bytes a container")
    return columns


def _version(declared: object) -> int:
    if not isinstance(declared, int) or not 0 < declared < _WIDEST:
        raise ValueError(f"VERSION is {declared!r}; a whole number from 1 to {_WIDEST - 1} is expected")
    return declared


def _guarded_builtins() -> dict[str, object]:
    """The builtins of a policy: the pure ones, and an import of what the check by syntax allows."""
    return {**{name: getattr(builtins, name) for name in policy_purity.ALLOWED_BUILTINS}, "__import__": _import}


def _import(name: str, globals_: object = None, locals_: object = None, fromlist: Sequence[str] = (), level: int = 0) -> object:
    del globals_, locals_
    inner = name.startswith("numpy._")  # numpy loads parts of itself when a policy first calls them
    if level or (not inner and any(policy_purity.import_faults(name))):
        raise ImportError(f"a policy may not import '{name}'")
    return _shown(name if fromlist else name.partition(".")[0])


def _shown(name: str) -> ModuleType:
    """A module as a policy sees it: numpy itself, of others what is public and no module that it may not import."""
    if name.partition(".")[0] == "numpy":
        return importlib.import_module(name)
    shown = ModuleType(name)
    if name in policy_purity.ALLOWED_MODULES:
        for key, member in vars(importlib.import_module(name)).items():
            if not key.startswith("_") and (
                not isinstance(member, ModuleType) or member.__name__ in policy_purity.ALLOWED_MODULES
            ):
                setattr(shown, key, member)
    for other in policy_purity.ALLOWED_MODULES:
        if other.startswith(f"{name}."):
            part = other.removeprefix(f"{name}.").partition(".")[0]
            setattr(shown, part, _shown(f"{name}.{part}"))
    return shown
