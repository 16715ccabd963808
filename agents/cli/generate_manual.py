"""Generates the manual, docs/cli.md, from the commands' own help and the settings' own descriptions.

`make docs` writes the file; a test fails when the file differs.
"""

import re

from agents.cli import __doc__ as story
from agents.cli.program import app
from agents.settings.loading import __doc__ as order
from agents.settings.loading import environment
from agents.settings.setting_descriptions import describe
from agents.terminal.output import data

_MODULE = re.compile(r"^(ullage[a-z -]*?) -m \S+", re.MULTILINE)
"""Matches the `-m` part of usage lines, which repeat how Python was started."""
_NOTE = "<!-- made by `make docs`; do not edit -->"


def manual() -> str:
    """The whole text of docs/cli.md."""
    commands = _MODULE.sub(r"\1", app.generate_docs()).rstrip()
    return "\n".join(
        [_NOTE, commands, "", "## How it ends", "", *_paragraphs(story), "## Settings", "", *_paragraphs(order), *_table(), ""]
    )


def _paragraphs(text: str | None) -> list[str]:
    """The lines of a module's docstring, with an empty line at the end."""
    return [*(text or "").strip().splitlines(), ""]


def _table() -> list[str]:
    rows = ["| setting | default | what it means |", "|---|---|---|"]
    for name, default, text in describe():
        rows.append(f"| `{name}` | `{'' if default is None else default}` | {' '.join(text.split())} |")
    example = next(iter(environment({"log.brokers": ""})))
    return [*rows, "", f"As environment variables: `log.brokers` is `{example}`."]


if __name__ == "__main__":
    for line in manual().rstrip().splitlines():
        data(line)
