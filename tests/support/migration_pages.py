"""The pages of docs/migration: what each original has, by name, and what takes its place here.

`python -m tests.support.migration_pages` writes them. A row of a data file has names of the original, between commas, and a text.
Names of settings or metrics at the text's beginning, up to a semicolon, are explained by their own documentation, so that the
two cannot drift apart; `same` means that it has the same name here. Any other text is a sentence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from agents.settings.setting_descriptions import describe
from agents.settings.setting_texts import written
from streams import yaml_reader
from tests.support.commands import ROOT

FOLDER = ROOT / "docs" / "migration"
SAME = "same"
_NAMES = re.compile(r"[a-z_]+(?:\.[a-z_]+)+|(?:ullage|vpa|cluster_autoscaler)_\w+|same")
_MARK = re.compile(r"\*\*alarm[^*]*\*\*: |upstream's(?:, [^:|]*)?: ")
"""What a metric's meaning begins with and need not say here."""
_METRIC_ROW = re.compile(r"^\| `(\w+)` \|[^|]*\|[^|]*\| (.*) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """What one original calls `names`; `ours` are settings and metrics here, or `same`, and `text` is what else is to be said."""

    names: tuple[str, ...]
    ours: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one kind, and how a name of that kind is written."""

    title: str
    form: str
    rows: dict[str, str]

    def read(self) -> list[Row]:
        """Each row, taken apart."""
        return [_row(names, text) for names, text in self.rows.items()]


@dataclass(frozen=True, slots=True)
class Original:
    """One data file: a title, what its names are of, what is to be said before, and the tables."""

    title: str
    names: str
    about: str
    tables: tuple[Table, ...]


def originals() -> dict[Path, Original]:
    """What the data files say, by file."""
    return {path: msgspec.convert(yaml_reader.read_file(path, str(path)), Original) for path in sorted(FOLDER.glob("*.yaml"))}


def metrics() -> Mapping[str, str]:
    """What each metric of ours means, by its name; a test holds that docs/observability.md has exactly those that there are."""
    return dict(_METRIC_ROW.findall((ROOT / "docs/observability.md").read_text(encoding="utf-8")))


def page(source: Path, original: Original) -> str:
    """The whole text of one page."""
    note = f"<!-- made from {source.name} by `python -m tests.support.migration_pages`; do not edit -->"
    lines = [note, f"# {original.title}", "", original.about, "", f"Names are those of {original.names}.", ""]
    for table in original.tables:
        lines += [f"## {table.title}", "", "| there | here | what it means here |", "|---|---|---|"]
        lines += [*(_line(row, table.form) for row in table.read()), ""]
    return "\n".join(lines)


def _row(names: str, text: str) -> Row:
    first, _, rest = text.partition("; ")
    ours = tuple(first.split(", "))
    if not all(map(_NAMES.fullmatch, ours)):
        ours, rest = (), text
    return Row(tuple(names.split(", ")), ours, rest)


def _line(row: Row, form: str) -> str:
    names = ", ".join(f"`{form.format(name)}`" if " " not in name else name for name in row.names)
    if row.ours == (SAME,):
        ours, texts = "the same", [_explained()[name] for name in row.names if name in _explained()]
    else:
        ours = ", ".join(f"`{name}`{_default(name)}" for name in row.ours) or "-"
        texts = [_explained()[name] for name in row.ours if name in _explained()]
    if row.text:
        texts.append(row.text[0].upper() + row.text[1:])
    return f"| {names} | {ours} | {' '.join(texts)} |"


def _default(name: str) -> str:
    """The default of a setting, in brackets, if it has one that says something."""
    value = _settings().get(name)
    return "" if value is None or value in ("", ()) else f" ({written(value)})"


@cache
def _settings() -> Mapping[str, object]:
    return {name: default for name, default, _text in describe()}


@cache
def _explained() -> Mapping[str, str]:
    """What settings and metrics mean, by their names, as sentences of their own."""
    settings = {name: " ".join(text.split()) for name, _default, text in describe()}
    return {name: _sentence(text) for name, text in (settings | metrics()).items()}


def _sentence(text: str) -> str:
    text = _MARK.sub("", text).removeprefix("... ").removesuffix(" ...").replace(" ... ", ". ")
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


if __name__ == "__main__":
    for file, said in originals().items():
        file.with_suffix(".md").write_text(page(file, said), encoding="utf-8")
