"""Every command line that a document shows is taken by the program, with its flags and up to the point where it needs a log."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import cli
from agents.cli.program import app

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("deploy/**/*.md"))]
FENCED = re.compile(r"^ *(?:\$ )?ullage ([a-z][^#\n]*)", re.MULTILINE)
INLINE = re.compile(r"`ullage ([a-z][^`\n]*)`")
EXAMPLES = {"FILE": "usage.parquet", "HOST:PORT": "127.0.0.1:1", "NAME=VALUE": "topics.prefix=shop", "NAMESPACE/VPA": "shop/cart"}
"""What stands for what a reader puts there."""
LEAVE = {"demo", "broker", "version", "doctor", "up"}
"""These do something without a log; other tests run them."""
NEEDS = (
    "log.kind is 'memory'",
    "nobody answers at '127.0.0.1:1'",
    "is no pod with a service account",
    " is no file",
    "does not exist",
    "cannot be read",
    "cannot be opened",
    "there is no trace",
)
"""What a command says that was understood, and lacks only the log, cluster or file of the reader."""


def shown(pattern: re.Pattern[str]) -> Iterator[str]:
    for document in DOCUMENTS:
        if document.name != "cli.md":  # made from the commands themselves
            for line in pattern.findall(document.read_text(encoding="utf-8")):
                yield line.strip().rstrip("\\").strip()


def tokens(line: str) -> list[str]:
    return [EXAMPLES.get(word, word.partition("|")[0]) for word in shlex.split(line) if word != "&"]


NAMED = sorted(set(shown(INLINE)))
"""Commands in a sentence, often without what they need."""
LINES = sorted({line for line in [*shown(FENCED), *(line for line in NAMED if " -" in line)] if "[" not in line})


def test_the_documents_show_command_lines() -> None:
    assert len(LINES) > 20
    assert len(NAMED) > 20


@pytest.mark.parametrize("line", NAMED)
def test_a_command_that_a_sentence_names_is_there(line: str) -> None:
    command = app
    for word in line.split():
        if not re.fullmatch("[a-z][a-z-]*", word) or not any(name not in {"--help", "-h", "--version"} for name in command):
            break
        assert word in command or command.default_command is not None, f"there is no command '{line}'"
        if word not in command:
            break
        command = command[word]


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_line_is_taken(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = tokens(line)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ULLAGE_LOG__KIND", "memory")
    monkeypatch.setenv("ULLAGE_CLUSTER__URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ULLAGE_LOG__BROKERS", "127.0.0.1:1")  # `topics` asks Kafka, whatever the log is
    if words[0] in LEAVE:
        app.parse_args(words, exit_on_error=False, print_error=False)
        return
    code = cli.run(words)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert code in {0, 3} or any(sentence in said for sentence in NEEDS), said


def test_the_namespaces_of_the_kube_source_arrive_as_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["source", "kube", "--namespace", "shop", "--namespace", "web", "--set", "log.kind=memory"]
    assert cli.run([*words, "--set", "cluster.url=http://127.0.0.1:1"]) == 2
    assert "log.kind is 'memory'" in capsys.readouterr().err
