"""docs/storm.md does what it says: its commands are run in their order, and print what stands below them."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import cli

DOCS = Path(__file__).parents[3] / "docs"
_LEFT_OUT = "..."


def told() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page, and the lines that it prints."""
    for block in re.findall(r"```console\n(.*?)```", (DOCS / "storm.md").read_text(encoding="utf-8"), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, lines


def prints(said: list[str], told: list[str]) -> bool:
    """Whether the lines are those of the page, where `...` stands for any."""
    pattern = "".join("(?:.*\n)*?" if line == _LEFT_OUT else re.escape(line) + "\n" for line in told)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in said)) is not None


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DOCS / "scenarios", tmp_path / "scenarios")
    commands = list(told())
    assert len(commands) > 5
    for command, lines in commands:
        name, *words = shlex.split(command)
        capsys.readouterr()
        assert (name, cli.run(words)) == ("ullage", 0), capsys.readouterr().err
        said = capsys.readouterr().out.splitlines()
        assert prints(said, lines), f"{command} prints\n" + "\n".join(said)


@pytest.mark.parametrize(
    ("said", "told", "are"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "x", "b"], ["a", "...", "b"], True),
        (["a", "b"], ["a", "...", "b"], True),
        (["a", "x", "b"], ["a", "b"], False),
        (["a", "b", "x"], ["a", "b"], False),
        (["a.b"], ["a+b"], False),
    ],
)
def test_a_page_is_compared_line_by_line(said: list[str], told: list[str], *, are: bool) -> None:
    assert prints(said, told) is are
