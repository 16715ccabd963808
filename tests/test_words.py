"""The words of the house: one name, one meaning; and what a docstring or a comment names in backticks exists."""

import ast
import builtins
import io
import keyword
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import schemas
from agents.cli.program import app
from agents.settings.loading import environment
from agents.settings.setting_descriptions import describe

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "streams", "agents")

CLASSES_WITH_ONE_MEANING: Mapping[str, str] = {}
"""Names of public classes that stand in two files on purpose, each with the reason."""

_SUBJECT = "the events of a subject in schemas, and what reads or publishes them in streams"
FILES_WITH_ONE_MEANING: Mapping[str, str] = {
    "__init__": "Python's own",
    "__main__": "Python's own",
    "topics": "the topics as data in streams, and the command that creates them in operate",
    "control": _SUBJECT,
}
"""Names of files that stand in two packages on purpose, each with the reason. `cli/X` declares what another X does."""

FOREIGN: Mapping[str, str] = {
    "kubernetes": "the name of the API server's official client",
    "metrics.k8s.io": "an API group of Kubernetes",
    "null": "JSON's",
    "pod_label_": "a default of upstream's",
    "kubernetes_namespace": "a default of upstream's",
    "kubernetes_pod_name": "a default of upstream's",
    "Inf": "a number as Go writes it",
    "NaN": "a number as Go writes it",
    "GetExternalPerPodMetricReplicas": "a function of upstream's HPA controller",
    "GetResourceReplicas": "a function of upstream's HPA controller",
    "cpu_cores": "a column of a trace, put together from resource and unit",
    "cpu_millicores": "a column of a trace, put together from resource and unit",
}
"""Words in backticks that look like names of ours and are not, each with its owner."""

PYTHON = {*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names}
_BACKTICKED = re.compile(r"`([^`\n]+)`")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
_GO = re.compile(r"[a-z]+[A-Z]\w*|\w+\.go|(?:strconv|time|math|sort|Time)\.[A-Z]\w+")
"""Names in Go: ours never look like that."""
_OUR_PATH = re.compile(r"(?<![\w./-])(?:schemas|streams|agents|tests)(?:/\w+)+(?:\.py)?(?![\w/-])")
_OUR_MODULE = re.compile(r"(?<![\w./-])(?:schemas|streams|agents)(?:\.[A-Za-z_]\w*)+")


@dataclass(slots=True)
class Source:
    """A file: what it defines, what it mentions, and what its prose says at which line."""

    path: str
    tree: ast.Module
    prose: list[tuple[int, str]]
    definitions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Names at the top of the module, each with the names inside it (of classes: methods and fields)."""
    mentions: set[str] = field(default_factory=set)

    @property
    def module(self) -> str:
        """`agents.app.worker`; a package goes by its folder."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def sources() -> tuple[Source, ...]:
    """All files of the three packages."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(_source(path) for path in paths)


def _source(path: Path) -> Source:
    text = path.read_text()
    tree = ast.parse(text)
    source = Source(str(path.relative_to(ROOT)), tree, [*_docstrings(tree), *_comments(text)])
    for node in tree.body:
        _define(source, node)
    for node in ast.walk(tree):
        source.mentions |= _mentioned(node)
    return source


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every text that stands alone: docstrings, and those under fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.splitlines(), node.lineno)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _define(source: Source, node: ast.stmt) -> None:
    for name in _bound(node):
        source.definitions[name] |= {inner for part in getattr(node, "body", ()) for inner in _bound(part)}
        if isinstance(node, ast.ClassDef):
            source.definitions[name] |= _attributes(node)


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            return


def _attributes(node: ast.ClassDef) -> set[str]:
    """What methods assign to `self`."""
    found = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {n.attr for n in found if isinstance(n.value, ast.Name) and n.value.id == "self"}


def _mentioned(node: ast.AST) -> set[str]:
    """Every identifier in the code, and the words of every text that is code's own."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.alias(name=name, asname=other):
            return {*name.split("."), name, other or name}
        case _:
            return set()


@cache
def literals() -> frozenset[str]:
    """Texts in code that are not docstrings: values and keys as they stand, and what has an underscore inside of longer ones."""
    found: set[str] = set()
    for source in sources():
        alone = {id(n.value) for n in ast.walk(source.tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                found |= {node.value, *re.findall(r"[A-Za-z]\w*_\w+", node.value)}
    return frozenset(found)


@cache
def defined() -> dict[str, set[str]]:
    """Everything that the tree defines, by its own name: modules, classes and functions, and what is inside each."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in sources():
        names = source.module.split(".")
        for i, name in enumerate(names):
            found[name] |= set(names[i + 1 : i + 2])
        found[names[-1]] |= set(source.definitions)
        for name, inner in source.definitions.items():
            found[name] |= inner
            for each in inner:
                found[each] |= set()
    return found


@cache
def common() -> frozenset[str]:
    """What prose may name anywhere: settings, environment variables, classes, modules and the functions at the top of them."""
    names = {name for name, _, _ in describe()}
    variables = {variable + end for variable in environment(dict.fromkeys(names, "")) for end in ("", "_FILE")}
    tops = {name for source in sources() for name in source.definitions if not name.isupper()}
    modules = {part for source in sources() for part in source.module.split(".")}
    parts = {part for name in names for part in name.split(".")}
    return frozenset(names | parts | variables | tops | modules)


def test_no_two_public_classes_have_one_name() -> None:
    assert list(homonymous_classes()) == []


def homonymous_classes() -> Iterator[str]:
    """Name and files of each offender."""
    for name, paths in sorted(public_classes().items()):
        if len(paths) > 1 and name not in CLASSES_WITH_ONE_MEANING:
            yield f"class {name}: {', '.join(paths)}"


def public_classes() -> dict[str, list[str]]:
    """The files that define a public class of each name."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.path)
    return places


def test_no_two_type_aliases_have_one_name_and_two_meanings() -> None:
    assert list(homonymous_aliases()) == []


def homonymous_aliases() -> Iterator[str]:
    """Name and places of each public alias that stands for two types, or bears the name of a class."""
    meanings: dict[str, dict[str, str]] = defaultdict(dict)
    for source in sources():
        for node in source.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp(op=ast.BitOr()) as value):
                    if re.fullmatch(r"[A-Z][a-z]\w+", name):
                        meanings[name].setdefault(ast.unparse(value), source.path)
    classes = public_classes()
    for name, found in sorted(meanings.items()):
        if len(found) > 1 or name in classes:
            yield f"alias {name}: {', '.join([*found.values(), *classes.get(name, ())])}"


def test_no_two_files_have_one_name() -> None:
    assert list(homonymous_files()) == []


def homonymous_files() -> Iterator[str]:
    """Name and places of each offender. `cli/X` declares what one other file called X does."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources():
        places[Path(source.path).stem].append(source.path)
    for name, paths in sorted(places.items()):
        others = [path for path in paths if not path.startswith("agents/cli/")]
        if len(others) > 1 and name not in FILES_WITH_ONE_MEANING:
            yield f"file {name}: {', '.join(paths)}"


def test_what_the_prose_names_exists() -> None:
    assert list(missing_names()) == []


def missing_names() -> Iterator[str]:
    """Place and word of each name in prose that nothing bears."""
    for source in sources():
        for line, text in source.prose:
            for word in _words(text):
                if not _exists(word, source):
                    yield f"{source.path}:{line} names '{word}'"


def _words(text: str) -> Iterator[str]:
    for quoted in _BACKTICKED.findall(text):
        if _NAME.fullmatch(quoted) and not _GO.fullmatch(quoted):
            yield quoted.removesuffix("()")
    bare = _BACKTICKED.sub("", text)
    yield from _OUR_PATH.findall(bare)
    yield from _OUR_MODULE.findall(bare)


def _exists(word: str, source: Source) -> bool:
    if "/" in word:
        return (ROOT / word).exists() or (ROOT / f"{word}.py").exists()
    if any(word in known for known in (common(), literals(), FOREIGN, PYTHON)):
        return True
    first, *rest = word.split(".")
    if not rest:
        return first in source.mentions
    if first in PACKAGES:
        return _module_exists(word)
    return (first in defined() and _leads_on(first, rest)) or (first in source.mentions and first not in defined())


def _module_exists(word: str) -> bool:
    modules = {source.module for source in sources()}
    if word in modules:
        return True
    place, _, name = word.rpartition(".")
    inside = next((set(s.definitions) for s in sources() if s.module == place), set())
    return name in inside or ("." in place and _module_exists(place) and name in defined()[place.rpartition(".")[2]])


def _leads_on(first: str, rest: list[str]) -> bool:
    return all(name in defined().get(before, ()) for before, name in zip([first, *rest], rest, strict=False))


PRIVATE_WORDS = frozenset(("aim", "aims", "desk", "errand", "errands", "pen", "sight", "sights", "tell", "tells", "told"))
"""Words for which the trade has others: publish, report, look-up, target, publisher."""


def test_no_name_is_of_a_private_language() -> None:
    assert (
        sorted({f"{source.path}: {name}" for source in sources() for name in _names(source) if _parts(name) & PRIVATE_WORDS})
        == []
    )


def _names(source: Source) -> Iterator[str]:
    """Whatever the code of a file defines or binds."""
    for node in ast.walk(source.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _parts(name: str) -> set[str]:
    return {part.lower() for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}


def documents() -> list[Path]:
    """The documents that speak of files."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy/README.md"]


def test_files_that_the_documents_name_exist() -> None:
    assert list(missing_files()) == []


def missing_files() -> Iterator[str]:
    """Document and path of each file that is not there."""
    for path in documents():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word in [*_OUR_PATH.findall(line), *_OUR_MODULE.findall(line)]:
                exists = (ROOT / word).exists() or (ROOT / f"{word}.py").exists() if "/" in word else _module_exists(word)
                if not exists:
                    yield f"{path.relative_to(ROOT)}:{number} names '{word}'"


def test_what_the_architecture_names_exists() -> None:
    assert list(missing_in_the_architecture()) == []


def missing_in_the_architecture() -> Iterator[str]:
    """Line and word of each file, folder, method and module in backticks that is not there."""
    ours = [path for top in (*PACKAGES, "tests", "docs", "deploy") for path in (ROOT / top).rglob("*")]
    paths = [f"/{path.relative_to(ROOT)}{'/' * path.is_dir()}" for path in [*ours, *ROOT.glob("*.*")]]
    for number, line in enumerate((ROOT / "ARCHITECTURE.md").read_text().splitlines(), 1):
        for word in _BACKTICKED.findall(line):
            if re.fullmatch(r"[\w./-]+(?:\.\w+|/)", word) and (
                word.endswith("/") or Path(word).suffix in {".py", ".md", ".toml"}
            ):
                exists = any(path.endswith(f"/{word}") for path in paths)
            elif _NAME.fullmatch(word):
                first, *rest = word.removesuffix("()").split(".")
                exists = (first in defined() and _leads_on(first, rest)) or word in common() | literals() | set(FOREIGN)
            else:
                continue
            if not exists:
                yield f"ARCHITECTURE.md:{number} names '{word}'"


def test_the_architecture_says_where_each_command_is() -> None:
    rows = [line for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines() if "`ullage X`" in line]
    missing = [
        f"{name}: {row}"
        for name in app
        if not name.startswith("-")
        for row, folders in zip(rows, (("operate", "inspect", "processes", "demo"), ("cli",)), strict=True)
        if not any((ROOT / "agents" / folder / _file_of(name, end)).exists() for folder in folders for end in ("", "_command"))
        if f"`{name}`" not in row
    ]
    assert missing == []


def _file_of(command: str, end: str) -> str:
    return f"{command.replace('-', '_')}{end}.py"


def test_the_glossary_has_one_word_a_line() -> None:
    sections = [part.splitlines() for part in (schemas.__doc__ or "").strip().split("\n\n")[1:]]
    assert [section[0] for section in sections] == ["The log", "Names", "Time", "Deciding", "Acting"]
    words = [line for section in sections for line in section[1:]]
    assert [line for line in words if not re.fullmatch(r"[a-z]+(?: [a-z]+)? {2,}\S.*", line)] == []


def test_commands_that_code_and_documents_name_exist() -> None:
    assert list(missing_commands()) == []


def missing_commands() -> Iterator[str]:
    """Place and word of each `ullage WORD` that is no command."""
    commands = {name for name in app if not name.startswith("-")}
    for path in [*(ROOT / source.path for source in sources()), *documents()]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word in re.findall(r"`ullage ([a-z][\w-]*)", line):
                if word not in commands:
                    yield f"{path.relative_to(ROOT)}:{number} names 'ullage {word}'"
