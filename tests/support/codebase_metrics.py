"""Measures the house: `python -m tests.support.codebase_metrics` prints the figures of docs/lab/codebase.md.

Product lines and files are those of the three packages. A why-comment is a `#` that is no instruction for a tool. Walks of an
object or a turn through the files are not counted here.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.test_callers import Callers

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "streams", "agents")
NO_NOUNS = ("found", "each", "one")
_FOR_TOOLS = re.compile(r"#\s*(noqa|type:|fmt:|pragma|ruff:)")


def figures() -> Iterator[tuple[str, str]]:
    """What is measured, and its value."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    yield "product files", f"{len(files)}"
    yield "product lines", f"{sum(len(text.splitlines()) for text in texts):,}"
    yield "files of at most 100 lines", f"{sum(len(text.splitlines()) <= 100 for text in texts)}"  # as it says
    code, comments = map(sum, zip(*map(_code_and_comments, texts), strict=True))
    yield "why-comments per 100 lines of code", f"{100 * comments / code:.2f}"
    locals_ = Counter(name for text in texts for name in _locals(text))
    for name in NO_NOUNS:
        yield f"local name '{name}', times bound", f"{locals_[name]}"
    callers = Callers()
    for held in ("agents.logic", "agents.engine", "schemas", "streams"):
        modules = [module for module in callers.trees if module == held or module.startswith(f"{held}.")]
        yield f"public names of {held} without a caller", f"{sum(len(list(callers.missing(module))) for module in modules)}"
    nodes = [path for path in (ROOT / "agents/logic/nodes").glob("*.py") if path.stem != "__init__"]
    yield "flat files in agents/logic/nodes", f"{len(nodes)}"
    yield (
        "tests, lines",
        f"{sum(len(path.read_text(encoding='utf-8').splitlines()) for path in (ROOT / 'tests').rglob('*.py')):,}",
    )
    yield from _commits()


def _code_and_comments(text: str) -> tuple[int, int]:
    """Lines that hold code, and comments that say something to a reader."""
    lines, comments = set(), 0
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments += not _FOR_TOOLS.match(token.string)
        elif token.type not in passed:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines), comments


def _locals(text: str) -> Iterator[str]:
    """The names that functions bind, once for each place."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _commits() -> Iterator[tuple[str, str]]:
    said = subprocess.run(["git", "log", "-500", "--format=%s%x1f%b%x1e"], cwd=ROOT, capture_output=True, text=True, check=True)
    commits = [entry.strip("\n").split("\x1f") for entry in said.stdout.split("\x1e") if entry.strip()]
    yield "of the last 500 commits, with a body", f"{100 * sum(bool(body.strip()) for _, body in commits) / len(commits):.0f} %"
    yield "of these, with a subject over 72 characters", f"{sum(len(subject) > 72 for subject, _ in commits)}"  # as it says


def main() -> None:
    """Print the table."""
    rows = list(figures())
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:{width}}  {value}" for name, value in rows))  # noqa: T201  # a command for people


if __name__ == "__main__":
    main()
