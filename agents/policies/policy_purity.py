"""Whether the source of a policy can be pure: what it imports, calls and keeps, by its syntax alone.

A policy decides on every worker and again in every replay, so it may know nothing but its argument. What is refused is named with
its line and the reason. It is no prison: it stops slips and habits, and a policy is as trusted as the program that loads it.
"""

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

API = "agents.logic.vertical.policy_code"
ALLOWED_MODULES = frozenset(
    {
        "__future__",
        "bisect",
        "collections",
        "collections.abc",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "itertools",
        "math",
    }
    | {"numpy", "numpy.typing", "operator", "statistics", "typing", API}
)
"""Modules that give the same answer to the same question anywhere."""
_PARTS_OF_NUMPY = frozenset(f"numpy.{name}" for name in ("exceptions", "fft", "linalg", "ma", "polynomial", "strings"))
"""Modules that a policy may reach through numpy, such as its linear algebra."""
_CLOCK, _CHANCE, _NETWORK, _FILES = "the clock", "chance", "the network", "files"
_PROCESSES, _ENVIRONMENT, _INNARDS = "threads and processes", "the environment", "the interpreter itself"
_FORBIDDEN_MODULES: Mapping[str, str] = {
    **dict.fromkeys(("time", "datetime", "calendar", "zoneinfo", "timeit", "sched"), _CLOCK),
    **dict.fromkeys(("random", "secrets", "uuid"), _CHANCE),
    **dict.fromkeys(
        ("socket", "ssl", "http", "urllib", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "kubernetes"), _NETWORK
    ),
    **dict.fromkeys(("io", "pathlib", "tempfile", "shutil", "glob", "fileinput", "sqlite3", "pickle", "shelve", "mmap"), _FILES),
    **dict.fromkeys(("threading", "multiprocessing", "subprocess", "asyncio", "concurrent", "signal", "queue"), _PROCESSES),
    **dict.fromkeys(("os", "sys", "platform", "getpass", "locale", "resource"), _ENVIRONMENT),
    **dict.fromkeys(("ctypes", "gc", "inspect", "importlib", "builtins", "types", "weakref", "atexit", "code"), _INNARDS),
}
_TAKES_ALL = "'except' without a class, or of BaseException, also takes what would end the policy"
_BUILTINS: Mapping[str, str] = {
    "open": _FILES,
    **dict.fromkeys(("input", "print"), "the terminal"),
    **dict.fromkeys(("exec", "eval", "compile", "__import__", "globals", "locals", "vars", "dir", "breakpoint"), _INNARDS),
    **dict.fromkeys(("getattr", "setattr", "delattr", "memoryview", "help"), _INNARDS),
    **dict.fromkeys(("id", "hash"), "an address or a seed that differs between processes"),
}
_REACHING: Mapping[str, str] = {
    "random": _CHANCE,
    **dict.fromkeys(("load", "save", "savez", "savez_compressed", "savetxt", "loadtxt", "genfromtxt"), _FILES),
    **dict.fromkeys(("fromfile", "tofile", "dump", "dumps", "memmap", "DataSource", "fromregex"), _FILES),
    **dict.fromkeys(("datetime64", "DateTime64DType", "is_busday", "busday_offset", "busday_count"), _CLOCK),
    **dict.fromkeys(("empty", "empty_like"), "whatever was in memory before"),
    **dict.fromkeys(("lib", "ctypeslib", "f2py", "testing", "core", "_core", "show_config", "seterr", "setbufsize"), _INNARDS),
    **dict.fromkeys(("show_runtime", "get_include", "ctypes", "attrgetter", "methodcaller"), _INNARDS),
    **dict.fromkeys(("get_type_hints", "ForwardRef", "f_back", "f_globals", "f_locals", "f_builtins"), _INNARDS),
    **dict.fromkeys(("seterrcall", "set_printoptions", "frompyfunc"), _INNARDS),
    **dict.fromkeys(("format", "format_map"), "attributes that a text names; an f-string shows which"),
    **dict.fromkeys(("flags", "setflags"), "arrays that others read, to write into them"),
    **dict.fromkeys(("data", "array_repr", "array_str", "array2string"), "an address that differs between processes"),
}
"""Attributes that nothing may be asked for in a policy."""
_CALLED: Mapping[str, str] = {"samples": _CHANCE, "ndarray": "whatever was in memory before"}
"""Attributes that may be read but not called: samples of a distribution are drawn, an array made by its class is not cleared."""
_FRAMES = ("gi_", "cr_", "ag_", "tb_")
"""How attributes begin that lead from a generator or an error to the frames of its callers."""
_MOMENTS = re.compile(r"now|today|[<>=|]?(M8|datetime64)(\[[^\]]*\])?")
"""Texts of which numpy makes the present moment, and the types that do so."""
_ADDRESS = "a text of an object may show its address, which differs between processes; only the sentence of an error may be one"
_BUILTIN = "'usage.builtin' is what others read; make arrays of your own, as with numpy.where"
_IN_ORDER = frozenset({"list", "tuple", "iter", "enumerate", "zip", "map"})
_NO_ORDER = "the order of a set differs between processes; sorted(...) has one"
_SHOWN = frozenset({"__name__", "__doc__", "__future__", "__annotations__", "__init__", "__post_init__", "__len__"})
ALLOWED_BUILTINS = frozenset(
    {"ArithmeticError", "AssertionError", "Ellipsis", "Exception", "False", "IndexError", "KeyError", "LookupError"}
    | {"None", "NotImplemented", "NotImplementedError", "OverflowError", "RuntimeError", "StopIteration", "True"}
    | {"TypeError", "ValueError", "ZeroDivisionError", "__build_class__"}
    | {"abs", "all", "any", "bool", "callable", "classmethod", "complex", "dict", "divmod", "enumerate", "filter"}
    | {"float", "format", "frozenset", "hasattr", "int", "isinstance", "issubclass", "iter", "len", "list", "map"}
    | {"max", "min", "next", "object", "pow", "property", "range", "repr", "reversed", "round", "set", "slice"}
    | {"sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "zip"}
)
"""The builtins that a policy runs with."""


@dataclass(frozen=True, slots=True, order=True)
class Impurity:
    """Something in a policy's source that it may not have."""

    line: int
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.sentence}"


def impurities(tree: ast.Module) -> list[Impurity]:
    """Everything that is refused, by line."""
    # sets, because a walk meets one fault by several of its nodes
    refused = {Impurity(_line(node), sentence) for node in ast.walk(tree) for sentence in _refused(node)}
    modules = _imported(tree)
    reached = {
        Impurity(node.lineno, sentence)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        for sentence in _reached(node, modules)
    }
    kept = {Impurity(line, sentence) for line, sentence in _kept(tree)}
    # the sentence of an error may show an address: nobody decides by it
    raised = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    texts = {Impurity(_line(node), _ADDRESS) for node in ast.walk(tree) if id(node) not in raised and _is_text_of(node)}
    written = {Impurity(_line(node), _BUILTIN) for node in ast.walk(tree) if _writes_builtin(node)}
    return sorted(refused | reached | kept | texts | written)


def _is_text_of(node: ast.AST) -> bool:
    """Whether a text is made of any object; the sentence of an error may be."""
    match node:
        case ast.Call(func=ast.Name(id="str" | "repr" | "format" | "object")) | ast.FormattedValue():
            return True
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return True
    return False


def _writes_builtin(node: ast.AST) -> bool:
    """Whether a statement or a call writes into an array of `usage.builtin`, as far as the syntax shows."""
    match node:
        case ast.Assign(targets=targets):
            return any(map(_is_of_builtin, targets))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            return _is_of_builtin(target)
        case ast.Call(func=ast.Attribute(value=value, attr="fill" | "sort" | "partition" | "put" | "resize" | "itemset")):
            return _is_of_builtin(value)
        case ast.keyword(arg="out", value=value):
            return _is_of_builtin(value)
    return False


def _is_of_builtin(node: ast.expr) -> bool:
    """`usage.builtin.cpu[0]` and its like, alone or in a tuple."""
    if isinstance(node, ast.Tuple | ast.List):
        return any(map(_is_of_builtin, node.elts))
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        if isinstance(node, ast.Attribute) and node.attr == "builtin":
            return True
        node = node.value
    return False


def _line(node: ast.AST) -> int:
    """The line of a node; of a comprehension's `for` that of what it goes through."""
    return int(getattr(node.iter if isinstance(node, ast.comprehension) else node, "lineno", 1))


def _imported(tree: ast.Module) -> Mapping[str, str]:
    """The module of each name that an import binds to one that is allowed."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in ALLOWED_MODULES:
                    modules[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
    return modules


def _reached(node: ast.Attribute, modules: Mapping[str, str]) -> Iterator[str]:
    """Modules that a dotted name comes to through a module that is allowed, as sys does through dataclasses."""
    inner, between = node.value, ""
    while isinstance(inner, ast.Attribute):
        between = f".{inner.attr}{between}"
        inner = inner.value
    if isinstance(inner, ast.Name) and inner.id in modules:
        yield from _member_faults(f"{modules[inner.id]}{between}", node.attr, f"'{ast.unparse(node)}'")


def _member_faults(module: str, name: str, expression: str) -> Iterator[str]:
    """Why a policy may not have this of a module that it may import; nothing if it may, or if there is no such module."""
    if name in _REACHING:  # refused wherever the name stands, so not twice here
        return
    try:
        member = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return
    # names with two underscores are judged as attributes, wherever they stand
    if name.startswith("_") and not name.startswith("__"):
        yield f"{expression} reaches {_INNARDS}"
    elif isinstance(member, ModuleType) and not is_open(member.__name__):
        yield f"{expression} reaches {_FORBIDDEN_MODULES.get(member.__name__.partition('.')[0], _INNARDS)}"


def is_open(name: str) -> bool:
    """Whether a policy may reach a module, or something below it."""
    return name in _PARTS_OF_NUMPY or any(module == name or module.startswith(f"{name}.") for module in ALLOWED_MODULES)


def _refused(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (sentence for alias in names for sentence in import_faults(alias.name))
        case ast.ImportFrom(module=module, names=names, level=level):
            yield from (
                ["a relative import reaches other files"] if level else _from(module or "", [alias.name for alias in names])
            )
        case ast.Name(id=name) if name in _BUILTINS:
            yield f"'{name}' reaches {_BUILTINS[name]}"
        case ast.Name(id=name) if name.startswith("__") and name not in _SHOWN:
            yield f"'{name}' reaches {_INNARDS}"
        case ast.Global() | ast.Nonlocal():
            yield f"'{'global' if isinstance(node, ast.Global) else 'nonlocal'}' keeps something from one call to the next"
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            yield f"'async' waits, and reaches {_PROCESSES}"
        case ast.Try() | ast.TryStar():
            yield from (_TAKES_ALL for handler in node.handlers if _takes_all(handler))
        case _:
            yield from _asked(node)


def _asked(node: ast.AST) -> Iterator[str]:
    """What values are asked for: attributes, also by a pattern or a call, and moments."""
    match node:
        # attributes by any way to them: a pattern asks for them too, without a dot
        case ast.Attribute(attr=name):
            yield from _attribute_faults(name)
        case ast.MatchClass(kwd_attrs=names):
            yield from (sentence for name in names for sentence in _attribute_faults(name))
        case ast.Call(func=ast.Attribute(attr=name)) if name in _CALLED:
            yield f"'.{name}()' reaches {_CALLED[name]}"
        case ast.Call(func=ast.Name(id=name), args=args) if name in _IN_ORDER and any(map(_is_set, args)):
            yield _NO_ORDER
        case ast.For(iter=once) | ast.comprehension(iter=once) if _is_set(once):
            yield _NO_ORDER
        case ast.Constant(value=str() as text) if _MOMENTS.fullmatch(text):
            yield f"'{text}' reaches {_CLOCK} when numpy makes a time of it"


def _is_set(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return is_call or isinstance(node, ast.Set | ast.SetComp)


def _attribute_faults(name: str) -> Iterator[str]:
    if name in _REACHING:
        yield f"'.{name}' reaches {_REACHING[name]}"
    elif name.startswith(_FRAMES) or (name.startswith("__") and name not in _SHOWN):
        yield f"'.{name}' reaches {_INNARDS}"


def import_faults(name: str) -> Iterator[str]:
    """Why a policy may not import a module; nothing if it may."""
    if name not in ALLOWED_MODULES:
        top = name.partition(".")[0]
        reason = _REACHING.get(name.partition(".")[2]) if top == "numpy" else _FORBIDDEN_MODULES.get(top)
        why = f"reaches {reason}" if reason else "is none of those that a policy may use: " + ", ".join(sorted(ALLOWED_MODULES))
        yield f"'import {name}' {why}"


def _from(module: str, names: list[str]) -> Iterator[str]:
    yield from import_faults(module)
    if module in ALLOWED_MODULES:
        for name in names:
            statement = f"'from {module} import {name}'"
            yield from (
                [f"{statement} reaches {_REACHING[name]}"] if name in _REACHING else _member_faults(module, name, statement)
            )
    if "*" in names:
        yield f"'from {module} import *' hides what is imported"


def _takes_all(handler: ast.ExceptHandler) -> bool:
    classes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id == "BaseException") for kind in classes)


_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
_KEEPERS = frozenset(
    {"list", "dict", "set", "iter", "map", "filter", "zip", "enumerate", "reversed"}
    | {"defaultdict", "Counter", "deque", "OrderedDict", "ChainMap", "count", "cycle"}
)
"""Calls whose answer changes when it is used."""
_DISPLAYED = "a list, dict, set or generator outside of functions can keep something; make it a tuple"
_MADE = "what this call makes can keep something from one call to the next; make it a tuple"
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _kept(tree: ast.Module) -> Iterator[tuple[int, str]]:
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
