"""What goes wrong for people: each is one sentence that says what to do, no traceback, an exit code, and nothing left behind."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents import cli
from agents.commands.past import incident
from tests.support.commands import ROOT

NOWHERE = ("--brokers", "127.0.0.1:1")
LOG = ("--log", "log.jsonl")
NO_LOG = ("--set", "log.kind=file", "--set", "log.path=absent.jsonl")

FAILURES: Sequence[tuple[str, Sequence[str], int, str]] = (
    ("no command", ("starr",), 2, "starr"),
    ("unknown flag", ("status", "--loud"), 2, "--loud"),
    ("an unknown flag of one command", ("broker", "--set", "broker.port=1"), 2, "Try: ullage broker --help"),
    ("nothing where a policy is named", ("policy", "remove"), 2, "Try: ullage policy remove --help"),
    ("a port that is none", ("broker", "--port", "99999"), 2, "port 99999 is none: a port is between 0"),
    ("no broker: status", ("status", *NOWHERE), 1, "nobody answers at '127.0.0.1:1'"),
    ("no broker: recommendations", ("recommendations", *NOWHERE), 1, "nobody answers at '127.0.0.1:1'"),
    ("no broker: tap", ("tap", "pod-updates", *NOWHERE), 1, "Start one with `ullage broker`"),
    ("no broker: mode", ("mode", "plan", *NOWHERE), 1, "is Kafka running"),
    ("no broker: pause", ("pause", "--reason", "x", *NOWHERE), 1, "is Kafka running"),
    ("no broker: policy list", ("policy", "list", *NOWHERE), 1, "is Kafka running"),
    ("no broker: topics plan", ("topics", "plan", *NOWHERE), 1, "is Kafka running"),
    ("no broker: topics apply", ("topics", "apply", *NOWHERE), 1, "is Kafka running"),
    ("no broker: plan", ("plan", *NOWHERE), 1, "connecting to Kafka '127.0.0.1:1' did not work"),
    ("no broker: why-not", ("why-not", "shop/web-1", *NOWHERE), 1, "connecting to Kafka '127.0.0.1:1' did not work"),
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
    ("a part of a process that cannot begin", ("run", "source-asg", *NO_LOG), 2, "no node group is chosen"),
    ("node groups in no region", ("source", "asg", "--group", "0:3:web", *NO_LOG), 2, "no AWS region is set: set aws.region"),
    ("node groups removed in no region", ("consumer", "asg", *NO_LOG), 2, "no AWS region is set: set aws.region"),
    ("an external expander without an address", ("consumer", "expander", *NO_LOG), 2, "an external expander needs expander.url"),
    (
        "an external expander without its authority",
        ("consumer", "expander", "--set", "expander.url=a:1", "--set", "expander.certificate=absent", *NO_LOG),
        2,
        "expander.certificate 'absent' cannot be read: No such file or directory",
    ),
    ("a group that makes no sense", ("source", "asg", "--set", "aws.groups=a", *NO_LOG), 2, "aws.groups"),
    ("a cluster that does not answer", ("up", "--set", "cluster.url=http://127.0.0.1:1"), 2, "the cluster cannot be watched"),
    ("a port of 70000", ("broker", "--port", "70000"), 2, "a port is between 0"),
    ("a heap of nothing", ("broker", "--heap", "1"), 2, "Kafka needs at least"),
    ("a form that is none", ("status", "-o", "xml"), 2, "xml"),
    ("a version of nothing", ("why",), 2, ""),
    ("garbage as a trace", ("backtest", "garbage.parquet"), 2, "reading the trace 'garbage.parquet' did not work"),
    ("garbage as a CSV trace", ("scan", "--from-file", "garbage.csv"), 2, "reading the trace 'garbage.csv' did not work"),
    ("an empty trace", ("backtest", "empty.csv"), 2, "'empty.csv' has no column for container"),
    ("a folder as a trace", ("backtest", "folder"), 2, "there is no trace at 'folder/usage.parquet'"),
    ("garbage as an incident", ("import", "garbage.parquet"), 2, "'garbage.parquet' cannot be read as Parquet; was it cut off?"),
    ("garbage as an incident to look at", ("replay", "--log", "garbage.parquet"), 2, "was it cut off?"),
    ("no incident", ("import", "absent.parquet"), 2, "the incident file 'absent.parquet' does not exist"),
    ("garbage as a log", ("status", "--log", "garbage.csv"), 2, "'garbage.csv' is not a log file"),
    ("a pipe of zeros as a log", ("replay", "--export", "/dev/full", *LOG), 2, "'/dev/full' cannot be opened: it is a device"),
    ("garbage as a policy", ("policy", "apply", "garbage.csv", *LOG), 2, "'garbage.csv' cannot be read: it is no text in UTF-8"),
    ("one policy in place of a list", ("policy", "apply", "day.yaml", *LOG), 2, "'day.yaml' is no list of policies"),
    ("nothing as a scenario", ("simulate", "empty.yaml"), 2, "'empty.yaml' is no mapping such as `workloads: [...]`"),
    ("a type of event that is none", ("tap", "outcomes", "--type", "ActionFinish", *LOG), 2, "there are: ActionFinished"),
    ("a policy as code whose name no log can hold", ("policy", "new", "my policy.py"), 2, "no name that can stand in the log"),
    ("a folder as a policy", ("policy", "apply", "folder", *LOG), 2, "the policy file 'folder' cannot be read: Is a directory"),
    ("garbage as a scenario", ("simulate", "garbage.csv"), 2, "'garbage.csv' cannot be read: it is no text in UTF-8"),
    ("a folder as a scenario", ("simulate", "folder"), 2, "the scenario 'folder' cannot be read: Is a directory"),
    ("a scenario kept nowhere", ("simulate", "day.yaml", "--keep", "/proc/ullage"), 2, "--keep '/proc/ullage' cannot be made"),
    ("a scenario kept in a file", ("simulate", "day.yaml", "--keep", "day.yaml"), 2, "--keep 'day.yaml' cannot be made"),
    ("garbage as settings", ("status", "--config", "garbage.csv"), 2, "'garbage.csv' cannot be read: it is no text in UTF-8"),
    ("a folder as settings", ("status", "--config", "folder"), 2, "the settings file 'folder' cannot be read: Is a directory"),
    ("no kubeconfig", ("scan", "--kubeconfig", "absent"), 2, "cluster.kubeconfig 'absent' is no file"),
    ("a kubeconfig without a context", ("up", "--kubeconfig", "bare"), 2, "Expected key current-context"),
    ("a context that is not there", ("scan", "--kubeconfig", "bare", "-c", "prod"), 2, "cluster.context 'prod' cannot be used"),
    ("garbage as a kubeconfig", ("source", "kube", "--set", "cluster.kubeconfig=garbage.csv", *LOG), 2, "it is no text in UTF-8"),
    ("no Prometheus", ("scan", "-p", "http://127.0.0.1:1"), 1, "nobody answers there: is the address right?"),
    ("a Prometheus that is no address", ("scan", "-p", "nonsense"), 2, "it must be an address such as"),
    ("an incident nowhere", ("export", "nowhere/x.parquet", *LOG), 2, "'nowhere/x.parquet' cannot be written"),
    ("an incident where nobody may write", ("export", "/proc/x.parquet", *LOG), 2, "'/proc/x.parquet' cannot be written"),
    ("an incident with another ending", ("export", "folder", *LOG), 2, "it must end in .parquet"),
    ("a topic to export that is none", ("export", "x.parquet", "--topic", "nope", *LOG), 2, "--topic 'nope' is none; there are"),
    ("a folder as a report", ("report", "folder", *LOG), 2, "the report 'folder' cannot be written: Is a directory"),
    ("a report nowhere said", ("report", *LOG), 2, "give a file to write, or --live"),
    ("an unknown cluster to act on", ("mode", "apply", "--cluster", "prod", *LOG), 2, "no source has named a cluster 'prod'"),
    ("an unknown cluster to pause", ("pause", "--reason", "x", "--cluster", "prod", *LOG), 2, "the log has 'demo'"),
    ("an unknown cluster to plan for", ("plan", "--cluster", "prod", *LOG), 2, "no source has named a cluster 'prod'"),
    ("an unknown cluster to revert", ("revert", "--since", "1h", "--cluster", "prod", *LOG), 2, "no source has named a cluster"),
    ("an unknown cluster to end a revert", ("revert", "--end", "--cluster", "prod", *LOG), 2, "no source has named a cluster"),
    ("an unknown cluster's timeline", ("timeline", "--cluster", "prod", *LOG), 2, "the log has 'demo'"),
    ("an unknown cluster's history", ("history", "shop/cart", "--cluster", "prod", *LOG), 2, "the log has 'demo'"),
    ("an unknown cluster's why", ("why", "shop/cart", "--cluster", "prod", *LOG), 2, "the log has 'demo'"),
    ("a form that verify has not", ("replay", "--verify", "-o", "json", *LOG), 2, "--output json is for decisions"),
    ("a workload that is none", ("history", "web", *LOG), 2, "nothing was ever recommended for a workload 'web'"),
    ("a pod that is none", ("why-not", "web", *LOG), 2, "no source has published a pod 'web' of cluster 'demo'"),
    ("a decision that is none", ("why", "web", *LOG), 2, "no decision in the log has the id"),
    ("a decision that is none there", ("why", "web", "--cluster", "demo", *LOG), 2, "no decision in the log has the id"),
    ("a time for revert that is none", ("revert", "--since", "long", *LOG), 2, "--since 'long' is neither"),
    ("fewer than no records", ("tap", "pod-updates", "--limit", "-1", *LOG), 2, "--limit"),
    ("fewer than no rows", ("recommendations", "--limit", "-1", *LOG), 2, "--limit"),
    ("no lines at all", ("timeline", "--limit", "0", *LOG), 2, "--limit"),
    ("fewer than no rows of a scan", ("scan", "--from-file", "day.csv", "--limit", "-1"), 2, "--limit"),
    ("a policy that is none", ("diff", "nope", "upstream", "--data", "absent.csv"), 2, "'nope' is no policy"),
    ("a demo backwards", ("demo", "--seconds", "-1"), 2, "demo.seconds is '-1.0'"),
)


DAY = """\
length: 10m
nodes: {count: 1, cpu: 4, memory: 8Gi}
workloads:
- name: shop/cart
  replicas: 1
  load: {shape: diurnal, low: 0.05, high: 0.45, memory: 180, swing: 60}
  requests: {cpu: 500m, memory: 512Mi}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a short day of cluster `demo`."""
    folder = tmp_path_factory.mktemp("day")
    (folder / "day.yaml").write_text(DAY)
    assert cli.run(["simulate", str(folder / "day.yaml"), "--keep", str(folder)]) == 0
    return folder / "log.jsonl"


@pytest.fixture
def desk(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A folder with some files that make no sense; the names that may be in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-aws-config"))
    for variable in [name for name in os.environ if name.startswith("ULLAGE_") or name == "KUBECONFIG"]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    files = {
        "empty.yaml": "",
        "off.yaml": "- target: demo/shop/*\n  mode: Off\n",
        "bad.yaml": "a: [",
        "list.yaml": "- a\n",
        "bad.csv": "no,trace\n1\n",
        "empty.csv": "",
        "day.yaml": DAY,
        "bare": "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for name in ("garbage.csv", "garbage.parquet"):
        (tmp_path / name).write_bytes(bytes(range(256)) * 8)
    (tmp_path / "folder").mkdir()
    (tmp_path / "log.jsonl").write_bytes(recorded.read_bytes())
    return {path.name for path in tmp_path.iterdir()}


def _before(said: str) -> str:
    """The line with which an export says what it reads, which takes seconds; and those of a process whose parts have begun."""
    lines = said.splitlines(keepends=True)
    if lines and lines[0].startswith("reading "):
        return lines[0]
    return "".join(lines[:-1]) if lines and '"component":"run"' in lines[0] else ""


@pytest.mark.parametrize("case", FAILURES, ids=[case[0] for case in FAILURES])
def test_a_failure_is_a_sentence_an_exit_code_and_nothing_left(
    case: tuple[str, Sequence[str], int, str], desk: set[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, command, code, says = case
    assert cli.run([*command]) == code
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.removeprefix(_before(said.err)).startswith("ullage: ")
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


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_shell_has_closed_is_no_failure(closing: str, tmp_path: Path) -> None:
    command = ["bash", "-c", f'"$0" -m agents version {closing}', sys.executable]
    ended = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert bool(ended.stdout) == (closing == "2>&-")


def test_a_folder_that_may_only_be_read_is_a_sentence_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), ".run")

    monkeypatch.setattr(cli, "app", refused)
    assert cli.run(["demo"]) == 1
    says = "what was to be written could not be in '.run': Permission denied; go to a folder that you may write"
    assert says in capfd.readouterr().err


def test_a_disk_that_fills_up_leaves_the_report_of_before_and_no_part_of_a_new_one(
    desk: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "week.html").write_text("the report of last week")

    def full(path: Path, text: str, **_: object) -> int:
        path.write_bytes(text[:100].encode())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    assert cli.run(["report", "week.html", *LOG]) == 2
    assert "the report 'week.html' cannot be written: No space left on device" in capfd.readouterr().err
    assert (tmp_path / "week.html").read_text() == "the report of last week"
    assert {path.name for path in tmp_path.iterdir()} == desk | {"week.html"}


def test_an_export_that_is_stopped_does_not_end_as_if_it_had_written_its_file(
    desk: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident, "_written", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    assert cli.run(["export", "stopped.parquet", *LOG]) == 128 + signal.SIGINT
    assert {path.name for path in tmp_path.iterdir()} == desk


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    process = _run("config", "show", "--explain", folder=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.wait(60)
    assert said == ""


def _await_handler(process: "subprocess.Popen[str]") -> None:
    """Wait until the process catches SIGTERM, which it does while a command runs."""
    status, until = Path(f"/proc/{process.pid}/status"), time.monotonic() + 60.0
    while status.exists() and time.monotonic() < until:
        caught = next(int(line.split()[1], 16) for line in status.read_text().splitlines() if line.startswith("SigCgt"))
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.1)
    if not status.exists():
        time.sleep(6.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs_with_0_and_what_has_an_end_with_its_own_code(number: signal.Signals, desk: set[str]) -> None:
    endless = (("tap", "pod-updates", "--follow", *LOG), ("source", "clock", *LOG))
    Path("rush.yaml").write_text((ROOT / "docs/scenarios/rush.yaml").read_text().replace("length: 4h", "length: 4d"))
    running = [_run(*command, folder=Path.cwd()) for command in (*endless, ("simulate", "rush.yaml"))]
    for process in running:
        _await_handler(process)
        process.send_signal(number)
    said = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 128 + number]
    assert not [text for text in said if "Traceback" in text]
    assert {path.name for path in Path.cwd().iterdir()} == desk | {"rush.yaml"}


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
