"""What the documents name exists: files, modules, commands; and public classes of one folder have names of their own."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from agents.cli.program import app

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "streams", "agents")
_OUR_PATH = re.compile(r"(?<![\w./-])(?:schemas|streams|agents|tests)(?:/\w+)+(?:\.py)?(?![\w/-])")
_OUR_MODULE = re.compile(r"(?<![\w./-])(?:schemas|streams|agents)(?:\.[a-z_]\w*)+")
_PUBLIC_CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)


def documents() -> list[Path]:
    """The documents that speak of files."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy/README.md"]


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def test_public_classes_of_one_folder_have_names_of_their_own() -> None:
    places: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in sources():
        for name in _PUBLIC_CLASS.findall(path.read_text(encoding="utf-8")):
            places[path.parent, name].append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_files_and_modules_that_the_documents_name_exist() -> None:
    assert list(missing_files()) == []


def missing_files() -> Iterator[str]:
    """Document, line and path of each file that is not there."""
    for path in documents():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in [*_OUR_PATH.findall(line), *(name.replace(".", "/") for name in _OUR_MODULE.findall(line))]:
                places = [
                    ROOT / word,
                    ROOT / f"{word}.py",
                    (ROOT / word).parent.with_suffix(".py"),
                ]  # the last: a name of a module
                if not any(place.exists() for place in places):
                    yield f"{path.relative_to(ROOT)}:{number} names '{word}'"


def test_commands_that_code_and_documents_name_exist() -> None:
    assert list(missing_commands()) == []


def missing_commands() -> Iterator[str]:
    """Place and word of each `ullage WORD` that is no command."""
    commands = {name for name in app if not name.startswith("-")}
    for path in [*sources(), *documents()]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in re.findall(r"`ullage ([a-z][\w-]*)", line):
                if word not in commands:
                    yield f"{path.relative_to(ROOT)}:{number} names 'ullage {word}'"
