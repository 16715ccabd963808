"""Whoever comes from an original finds each of its names in our documents, and what stands beside it exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agents.cli.program import app
from agents.settings.setting_descriptions import describe
from streams import yaml_reader
from tests.support import migration_pages
from tests.support.commands import ROOT
from tests.support.migration_pages import SAME, Row

DOCUMENTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
PRODUCT = "\n".join(
    path.read_text(encoding="utf-8") for part in ("agents", "streams", "schemas") for path in (ROOT / part).rglob("*.py")
)
SETTINGS = {name for name, *_ in describe()}
PAGES = migration_pages.originals()
NAMES = msgspec.convert(yaml_reader.read_file(ROOT / "tests/golden/originals.yaml", "the names"), dict[str, dict[str, str]])
"""What the originals' own sources have: by original and kind, names between spaces."""


def _rows() -> Iterator[Row]:
    return (row for original in PAGES.values() for table in original.tables for row in table.read())


@pytest.mark.parametrize("source", PAGES, ids=lambda path: path.stem)
def test_a_page_is_what_its_data_says(source: Path) -> None:
    assert source.with_suffix(".md").read_text(encoding="utf-8") == migration_pages.page(source, PAGES[source])


def test_settings_and_metrics_that_take_a_place_are_there() -> None:
    assert {name for row in _rows() for name in row.ours} - SETTINGS - migration_pages.metrics().keys() - {SAME} == set()


def test_what_is_the_same_here_is_in_the_product() -> None:
    metrics = migration_pages.metrics()
    names = [name.removesuffix("/") for row in _rows() if row.ours == (SAME,) for name in row.names]
    missing = {name for name in names if name not in metrics and re.split(r"\.(?=\w+$)|node-template/", name)[-1] not in PRODUCT}
    assert missing == set()


def test_settings_metrics_and_commands_that_a_sentence_names_are_there() -> None:
    quoted = {name for row in _rows() for name in re.findall(r"`([^`]+)`", row.text)}
    groups = {name.partition(".")[0] for name in SETTINGS}
    settings = {name for name in quoted if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) and name.partition(".")[0] in groups}
    assert settings - SETTINGS == set()
    assert {name for name in quoted if re.fullmatch(r"ullage_\w+", name)} - migration_pages.metrics().keys() == set()
    commands = {name.split()[1] for name in quoted if name.startswith("ullage ")}
    assert commands - set(app) == set()


@pytest.mark.parametrize("original", NAMES)
def test_every_flag_metric_and_event_of_an_original_is_in_our_documents(original: str) -> None:
    flags, metrics, events = (NAMES[original][kind].split() for kind in ("flags", "metrics", "events"))
    named = [*(f"--{flag}" for flag in flags), *metrics, *events]
    assert [name for name in named if f"`{name}`" not in DOCUMENTS] == []
