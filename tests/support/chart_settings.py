"""The names of all settings, as the part of the chart's schema that refuses a misspelt one before anything is installed.

`python -m tests.support.chart_settings` writes it into values.schema.json. Values are left to the program, which takes several
spellings of them.
"""

import json
from typing import Any

from agents.settings import setting_descriptions
from tests.support.commands import ROOT

SCHEMA = ROOT / "deploy/helm/ullage/values.schema.json"
_BEGIN, _END = '    "settings": ', ",\n"


def part() -> dict[str, Any]:
    """The schema of the value `settings`: groups in groups, and no names but those that there are."""
    whole: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    for name, *_ in setting_descriptions.describe():
        *groups, last = name.split(".")
        at = whole
        for group in groups:
            empty = {"type": "object", "additionalProperties": False, "properties": {}}
            at = at["properties"].setdefault(group, empty)
        at["properties"][last] = {}
    return whole


def written(text: str) -> str:
    """The text of the schema with that part in its line."""
    lines = [
        f"{_BEGIN}{json.dumps(part())}{_END}" if line.startswith(_BEGIN) else line for line in text.splitlines(keepends=True)
    ]
    return "".join(lines)


if __name__ == "__main__":
    SCHEMA.write_text(written(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
