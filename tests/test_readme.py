"""What the documents tell people to type exists, and what they name is there."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from agents.cli.program import app

ROOT = Path(__file__).parent.parent
_PAGES = ("cluster", "usage", "first-hour", "troubleshooting", "migration", "comparison", "sizing", "install")
DOCUMENTS = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "docs/README.md", "deploy/README.md", *(f"docs/{page}.md" for page in _PAGES))
]
PLACEHOLDERS = {
    "TIME": "14:00",
    "KEYFILE": "key",
    "POD|DECISION": "p",
    "NAMESPACE/POD": "n/p",
    "POD": "p",
    "NAME": "n",
    "NAMESPACE/VPA": "n/v",
}


def _commands() -> list[str]:
    commands = set()
    for path in DOCUMENTS:
        lines = re.findall(r"`(ullage [^`]+)`|^((?:[A-Z_]+=\S+ )*ullage .+)$", path.read_text(), re.MULTILINE)
        commands |= {(inline or block).split("#")[0].strip() for inline, block in lines}
    return sorted(commands)


@pytest.mark.parametrize("command", _commands())
def test_every_command_in_the_documents_is_one_that_the_program_takes(command: str) -> None:
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(command)]
    words = words[words.index("ullage") + 1 :]
    app.parse_args(words, print_error=False, exit_on_error=False)


def test_every_make_target_in_the_documents_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {t for path in DOCUMENTS for t in re.findall(r"(?:`|^)make ([a-z-]+)", path.read_text(), re.MULTILINE)}
    assert named
    assert named - {"install"} <= targets


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "ARCHITECTURE.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_files_and_names_that_the_architecture_walks_through_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    sources = "\n".join(p.read_text() for package in ("agents", "streams", "schemas") for p in (ROOT / package).rglob("*.py"))
    for name in re.findall(r"`(?:[a-z_.]+\.)?([A-Z][A-Za-z]+)\.([a-z_]+)`", text):
        assert f"class {name[0]}" in sources, name
        assert f"def {name[1]}(" in sources or f"def {name[1]}[" in sources, name
    words = set(re.findall(r"\w+", sources))
    for name in re.findall(r"`(?:\w+\.)*(\w+_\w+)`", text):
        assert name in words, name
    for path in re.findall(r"\(((?:agents|streams|schemas)/[\w/]+\.py)\)", text):
        assert (ROOT / path).exists(), path


def test_every_line_of_code_in_the_readme_is_seen_whole_where_a_browser_shows_it() -> None:
    """GitHub's column has room for 88 characters beside its sidebar; the rest of a line would have to be scrolled to."""
    blocks = (ROOT / "README.md").read_text(encoding="utf-8").split("```")[1::2]
    assert [line for block in blocks for line in block.splitlines() if len(line) > 86] == []


def test_the_index_of_documents_names_every_page() -> None:
    named = set(re.findall(r"\]\(([a-z-]+\.(?:md|yaml))\)", (ROOT / "docs/README.md").read_text()))
    assert named == {page.name for page in (ROOT / "docs").iterdir() if page.is_file()} - {"README.md"}


def test_nobody_is_told_to_fetch_ullage_from_an_index_where_the_name_is_not_ours() -> None:
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [ROOT / name for name in kept if name.endswith((".md", ".py", ".yaml", ".yml", ".sh", ".toml", "Dockerfile"))]
    fetched = re.compile(r"(pip|uv|uvx|pipx)( \w+)*( -\S+)* ['\"]?ullage\b(?!\.)")
    assert [str(path) for path in texts if path.is_file() and fetched.search(path.read_text(encoding="utf-8"))] == []
