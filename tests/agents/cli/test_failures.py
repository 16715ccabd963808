"""What goes wrong for people: each is one sentence that says what to do, no traceback, an exit code, and nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents import cli
from tests.support.commands import ROOT

NOWHERE = ("--brokers", "127.0.0.1:1")
NO_LOG = ("--set", "log.kind=file", "--set", "log.path=absent.jsonl")

FAILURES: Sequence[tuple[str, Sequence[str], int, str]] = (
    ("no command", ("starr",), 2, "starr"),
    ("unknown flag", ("status", "--loud"), 2, "--loud"),
    ("no broker: status", ("status", *NOWHERE), 1, "nobody answers at '127.0.0.1:1'"),
    ("no broker: recommendations", ("recommendations", *NOWHERE), 1, "nobody answers at '127.0.0.1:1'"),
    ("no broker: tap", ("tap", "pod-updates", *NOWHERE), 1, "Start one with `ullage broker`"),
    ("no broker: mode", ("mode", "plan", *NOWHERE), 1, "is Kafka running"),
    ("no broker: pause", ("pause", "--reason", "x", *NOWHERE), 1, "is Kafka running"),
    ("no broker: policy list", ("policy", "list", *NOWHERE), 1, "is Kafka running"),
    ("no broker: topics plan", ("topics", "plan", *NOWHERE), 1, "is Kafka running"),
    ("no broker: topics apply", ("topics", "apply", *NOWHERE), 1, "is Kafka running"),
    ("no broker: checkpoints", ("checkpoints", "show", *NOWHERE), 1, "is Kafka running"),
    ("a broker without a port", ("status", "--brokers", "kafka"), 2, "'kafka' is no HOST:PORT"),
    ("a broker's name that nobody knows", ("status", "--brokers", "kafka.invalid:9092"), 1, "cannot be found"),
    ("no log file", ("status", *NO_LOG), 2, "the log file 'absent.jsonl' cannot be opened"),
    ("a log in memory", ("status", "--set", "log.kind=memory"), 2, "this command needs kafka or file"),
    ("a folder as log", ("status", "--set", "log.kind=file", "--set", "log.path=."), 2, "cannot be opened"),
    ("a setting that is none", ("status", "--set", "log.borkers=a:1"), 2, "log.borkers"),
    ("a setting without a value", ("status", "--set", "log.brokers"), 2, "--set takes NAME=VALUE"),
    ("a percentile of 90", ("status", "--set", "vertical.target_cpu_percentile=90"), 2, "vertical.target_cpu_percentile"),
    ("no partitions", ("status", "--set", "topics.partitions=0"), 2, "topics.partitions"),
    ("a number that is none", ("status", "--set", "topics.partitions=four"), 2, "topics.partitions"),
    ("no settings file", ("status", "--config", "absent.yaml"), 2, "absent.yaml"),
    ("a settings file that is no YAML", ("status", "--config", "bad.yaml"), 2, "bad.yaml"),
    ("a settings file that is a list", ("status", "--config", "list.yaml"), 2, "list.yaml"),
    ("an empty policy file", ("policy", "apply", "empty.yaml", *NO_LOG), 2, "is empty"),
    ("no policy file", ("policy", "apply", "absent.yaml", *NO_LOG), 2, "absent.yaml"),
    ("an unquoted Off", ("policy", "apply", "off.yaml", *NO_LOG), 2, "YAML reads Off without quotes as false"),
    ("a policy for nothing", ("policy", "set", "web", *NO_LOG), 2, "web"),
    ("a budget of ten", ("mode", "apply", "--budget", "10", *NO_LOG), 2, "10"),
    ("no such topic", ("tap", "pod-update", *NO_LOG), 2, "there is no topic 'pod-update'; there are:"),
    ("a time that is none", ("tap", "pod-updates", "--from", "yesterday", *NO_LOG), 2, ""),
    ("no trace", ("backtest", "absent.csv"), 2, "there is no trace at 'absent.csv'"),
    ("no log to replay", ("replay", "absent.jsonl"), 2, "absent.jsonl"),
    ("a trace that is none", ("backtest", "bad.csv"), 2, "bad.csv"),
    (
        "a kubeconfig that is not there",
        ("source", "kube", "--set", "cluster.kubeconfig=absent", *NO_LOG),
        2,
        "'absent' is no file",
    ),
    ("two ways to a cluster", ("source", "kube", "--set", "cluster.in_cluster=true", *NO_LOG), 2, "this is no pod"),
    ("no such consumer", ("consumer", "evicter", *NO_LOG), 2, "evicter"),
    ("groups that nobody named", ("source", "asg", *NO_LOG), 2, "no node group is chosen"),
    ("a group that makes no sense", ("source", "asg", "--set", "aws.groups=a", *NO_LOG), 2, "aws.groups"),
    ("a cluster that does not answer", ("up", "--set", "cluster.url=http://127.0.0.1:1"), 2, "the cluster cannot be watched"),
    ("a port of 70000", ("broker", "--port", "70000"), 2, "a port is between 0"),
    ("a heap of nothing", ("broker", "--heap", "1"), 2, "Kafka needs at least"),
    ("a form that is none", ("status", "-o", "xml"), 2, "xml"),
    ("a version of nothing", ("why",), 2, ""),
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A folder with some files that make no sense; the names that may be in it."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("ULLAGE_") or name == "KUBECONFIG"]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    files = {
        "empty.yaml": "",
        "off.yaml": "- target: demo/shop/*\n  mode: Off\n",
        "bad.yaml": "a: [",
        "list.yaml": "- a\n",
        "bad.csv": "no,trace\n1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return set(files)


@pytest.mark.parametrize("case", FAILURES, ids=[case[0] for case in FAILURES])
def test_a_failure_is_a_sentence_an_exit_code_and_nothing_left(
    case: tuple[str, Sequence[str], int, str], desk: set[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, command, code, says = case
    assert cli.run([*command]) == code
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("ullage: ")
    assert says in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert {path.name for path in tmp_path.iterdir()} == desk


def _run(*command: str, folder: Path, out: int | None = None) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ULLAGE_")}
    environment["PYTHONPATH"] = str(ROOT)
    where = subprocess.PIPE if out is None else out
    argv = [sys.executable, "-m", "agents", *command]
    return subprocess.Popen(argv, cwd=folder, env=environment, stdout=where, stderr=subprocess.PIPE, text=True)


def test_a_full_disk_behind_the_output_is_a_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = _run("config", "show", folder=tmp_path, out=full.fileno())
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in said
    assert "No space left on device" in said


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    process = _run("config", "show", "--explain", folder=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.wait(60)
    assert said == ""


@pytest.mark.slow
def test_ctrl_c_ends_a_process_without_a_word_too_many(tmp_path: Path) -> None:
    process = _run("source", "clock", *NOWHERE, folder=tmp_path)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in first + said
    assert list(tmp_path.iterdir()) == []
