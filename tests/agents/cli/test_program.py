import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from agents import cli
from agents.cli.generate_manual import manual
from agents.cli.program import EXAMPLES, app
from agents.commands.compare.what_if_command import settings_of
from agents.settings import loading
from agents.settings.setting_descriptions import describe

ROOT = Path(__file__).parents[3]
SET = re.compile(r"--set[ =]([a-z_]+(?:\.[a-z_]+)+)=([^\s`'\",;)]+)")
PROGRAM = ("agents", "streams", "schemas")
HEAVY = {"faust", "aiokafka", "kafka", "kubernetes", "duckdb", "pydantic", "numpy", "msgspec"}


def commands(of: App, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in of:
        if not name.startswith("-"):
            inner = of[name]
            yield (*before, name), inner
            yield from commands(inner, (*before, name))


ALL = dict(commands(app))


def test_the_commands_that_a_user_was_promised_are_there() -> None:
    promised = "demo broker worker consumer tap replay backtest why doctor version"
    for words in [
        *promised.split(),
        "topics plan",
        "topics apply",
        "source clock",
        "source traces",
        "source simulated",
        "config show",
    ]:
        assert tuple(words.split()) in ALL, words


@pytest.mark.parametrize("words", ALL)
def test_every_command_has_a_help_text_and_every_parameter_says_what_it_is(words: tuple[str, ...]) -> None:
    command = ALL[words]
    assert len(command.help) > 20
    if command.default_command is not None:
        for argument in command.assemble_argument_collection():
            assert argument.parameter.help or argument.children, f"{' '.join(words)} {argument.name}"


def test_every_command_has_an_example_that_is_taken() -> None:
    assert EXAMPLES.keys() == {name for name in app if not name.startswith("-")}
    for name, line in EXAMPLES.items():
        program, command, *_ = words = shlex.split(line)
        assert (program, command) == ("ullage", name)
        app.parse_args(words[1:], exit_on_error=False, print_error=False)
        assert line in app[name].help_epilogue


def test_the_settings_file_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("topics: {prefix: shop}\n")
    monkeypatch.setenv("ULLAGE_CONFIG", str(file))
    assert cli.run(["config", "show"]) == 0
    assert "topics.prefix = shop" in capsys.readouterr().out


@pytest.mark.parametrize("words", ALL)
def test_no_command_has_two_parameters_of_one_name(words: tuple[str, ...]) -> None:
    command = ALL[words]
    if command.default_command is not None:
        names = [name for argument in command.assemble_argument_collection() if argument.show for name in argument.names]
        assert sorted(names) == sorted(set(names))


def test_the_manual_names_no_flag_that_a_command_refuses() -> None:
    assert re.findall(r"--(?:empty|no)-[a-z-]+", manual()) == []


@pytest.mark.parametrize("words", ALL)
def test_every_command_is_in_the_manual(words: tuple[str, ...]) -> None:
    assert f"# ullage {' '.join(words)}\n" in (ROOT / "docs/cli.md").read_text()


def examples_of_settings() -> Iterator[tuple[str, str, str]]:
    """File, name and value of each `--set NAME=VALUE` that we show to somebody."""
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(f for p in PROGRAM for f in (ROOT / p).rglob("*.py"))]
    for file in [*files, *(file for file in (ROOT / "deploy").rglob("*") if file.is_file())]:
        for name, value in SET.findall(file.read_text()):
            yield str(file.relative_to(ROOT)), name, value


def test_every_example_of_set_in_a_help_text_or_a_document_is_accepted() -> None:
    found = sorted(set(examples_of_settings()))
    assert {"agents/cli/backtest.py", "docs/kube.md", "docs/cli.md"} <= {file for file, _, _ in found}
    names = {name for name, _, _ in describe()}
    for file, said, amount in found:
        [item] = settings_of([f"{said}={amount}"])  # as `replay` takes it
        name, _, value = item.partition("=")
        assert name in names, f"{file}: there is no setting '{name}'"
        if not re.fullmatch(r"[A-Z:]+|\{\w+\}", value):  # FILE, HOST:PORT, and {count} in a message stand for a value
            loading.load(flags={name: value})


def test_the_manual_has_the_flags_of_settings_once() -> None:
    text = manual()
    assert text.count("* `--log PATH`: Read this log file") == 1
    assert text.count("(#flags-of-settings)") > 40
    assert "\n## Flags of settings\n" in text


def test_the_manual_says_what_the_program_says() -> None:
    written = (ROOT / "docs/cli.md").read_text()
    assert written.rstrip() == manual().rstrip(), "make docs"


def test_help_imports_nothing_heavy_and_so_comes_at_once() -> None:
    code = "import sys; from agents.cli import run; run(['--help']); sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "demo" in done.stdout
    assert not HEAVY & set(done.stderr.split())


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["nonsense"], "nonsense"),
        (["tap"], "topic"),
        (["demo", "--log", "paper"], "paper"),
        (["tap", "pod-metrics", "--set", "log.brokers"], "--set takes NAME=VALUE"),
        (["tap", "no-such", "--set", "log.kind=file"], "there is no topic 'no-such'; there are: clock, rules, policies, control"),
        (["config", "show", "--config", "gone.yaml"], "the settings file 'gone.yaml' does not exist"),
        (["why", "x", "--set", "log.kind=memory"], "this command needs kafka or file"),
        (["backtest", "gone.parquet"], "there is no trace at 'gone.parquet'"),
    ],
)
def test_wrong_usage_is_one_sentence_on_stderr_and_exits_with_2(
    tokens: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(tokens) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [
        "status",
        "tap recommendations",
        "why x",
        "pause --reason x",
        "mode apply",
        "policy list",
        "topics plan",
        "checkpoints show",
        "replay --verify",
        "settings plan",
    ],
)
def test_a_command_without_a_broker_says_what_was_tried_and_does_not_wait_for_the_client_to_give_up(
    words: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert cli.run([*words.split(), "--brokers", "127.0.0.1:1,127.0.0.1:2"]) == 1
    said = capsys.readouterr().err
    assert (
        "connecting to Kafka '127.0.0.1:1,127.0.0.1:2' did not work: nobody answers at '127.0.0.1:1' (Connection refused)" in said
    )
    assert "nobody answers at '127.0.0.1:2'" in said
    assert not caplog.records, "the client itself retries, and says so"


def test_the_doctor_says_what_to_do_when_nobody_answers_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--brokers", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().out
    assert "fail  broker    nobody answers at '127.0.0.1:1' (Connection refused)" in said
    assert said[said.index("fail  broker") :].count("`ullage broker`") == 1
    assert "\n                if yours is elsewhere, name it: --brokers HOST:PORT" in said
    assert "ok    settings" in said


def test_a_setting_without_a_value_is_shown_as_not_set_and_is_null_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "show"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "log.at = not set" in said
    assert "log.security.region = not set" in said
    assert not [line for line in said if "None" in line]
    assert cli.run(["config", "show", "-o", "json"]) == 0
    values = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert values["log.at"] is None


def test_config_show_goes_to_stdout_with_each_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "show", "--origin", "--set", "topics.prefix=shop"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "topics.prefix = shop  # flag topics.prefix" in lines
    assert "log.kind = kafka  # default" in lines
