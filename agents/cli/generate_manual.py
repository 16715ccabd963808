"""Generates the manual, docs/cli.md, from the commands' own help and the settings' own descriptions.

`make docs` writes the file; a test fails when the file differs.
"""

import re
from collections import Counter

from agents.cli import __doc__ as story
from agents.cli.program import app
from agents.settings.loading import __doc__ as order
from agents.settings.loading import environment
from agents.settings.setting_descriptions import describe
from agents.terminal.output import data

_MODULE = re.compile(r"^(ullage[a-z -]*?) -m \S+", re.MULTILINE)
"""Matches the `-m` part of usage lines, which repeat how Python was started."""
_SETTINGS = re.compile(r"\*\*Settings\*\*:\n\n((?:\* .*\n)+)")
"""Matches the flags that nearly every command has."""
_FLAG_LINK = re.compile(r"\(#ullage-(?=install-completion\))")
"""Matches the links to a command that is spelled as a flag; its heading has the two hyphens of the flag, too."""
_ONCE = "**Settings**: as [every command has them](#flags-of-settings).\n"
_NOTE = "<!-- made by `make docs`; do not edit -->"


def manual() -> str:
    """The whole text of docs/cli.md."""
    commands, flags = _once(_FLAG_LINK.sub("(#ullage---", _MODULE.sub(r"\1", app.generate_docs())).rstrip() + "\n")
    ends = ["## How it ends", "", *_paragraphs(story)]
    settings = ["## Settings", "", *_paragraphs(order), *_table(), ""]
    return "\n".join([_NOTE, commands, "## Flags of settings", "", flags, *ends, *settings])


def _once(commands: str) -> tuple[str, str]:
    """The commands without the flags of settings that most of them have, and these flags."""
    # the block that most commands have; a command with flags of its own keeps its own
    [(flags, _)] = Counter(_SETTINGS.findall(commands)).most_common(1)
    return _SETTINGS.sub(lambda block: _ONCE if block[1] == flags else block[0], commands), flags


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
