"""`ullage export`, `record` and `import`: an hour goes into a file and out again, and the commands read it as it is."""

import re
import signal
import threading
import time
from pathlib import Path

import pytest

from agents import cli
from streams.clock_rules import ClockRecord
from streams.incidents.incident_file import IncidentFile
from tests.support import demo_hour_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def incident(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("incident") / "hour.parquet"
    assert cli.run(["export", str(file), "--log", str(log)]) == 0
    return file


def test_an_export_of_nothing_says_so(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none.parquet"
    assert cli.run(["export", str(file), "--log", str(log), "--from", "2020-01-01", "--to", "2020-01-02"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"no record is of that stretch: {file} holds none"


def answers(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ("tap", "pod-updates"),
        ("recommendations",),
        ("plan",),
        ("why", "ullage.pod-updates.v1:1:20"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_says_the_same_of_the_file_as_of_the_log(
    command: tuple[str, ...], log: Path, incident: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_log = answers(capsys, *command, "--log", str(log))
    assert answers(capsys, *command, "--log", str(incident)) == of_log
    assert len(of_log.splitlines()) >= 5


def test_file_and_imported_log_hold_the_same_and_verify_byte_for_byte(
    log: Path, incident: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back = tmp_path / "back.jsonl"
    assert cli.run(["import", str(incident), "--to", str(back)]) == 0
    assert sorted(back.read_bytes().splitlines()) == sorted(log.read_bytes().splitlines())
    assert "every decision is as published" in answers(capsys, "replay", "--verify", "--log", str(incident))
    assert cli.run(["import", str(incident), "--to", str(back)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_stretch_is_smaller_and_still_explains_what_happened_in_it(
    log: Path, incident: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.parquet"
    assert cli.run(["export", str(part), "--log", str(log), "--from", "00:45", "--to", "10m"]) == 0
    assert part.stat().st_size < incident.stat().st_size / 2
    said = answers(capsys, "import", "--check", str(part))
    assert "2026-01-05T00:45:00Z to 2026-01-05T00:50:00Z" in said
    assert "every record is as the manifest says" in said
    assert "requests recommended" in answers(capsys, "why", "shop/Deployment/search", "--log", str(part))


def test_with_pseudonyms_the_figures_stay_and_the_names_go(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, key = tmp_path / "shown.parquet", tmp_path / "key"
    assert cli.run(["export", str(shown), "--log", str(log), "--pseudonyms", str(key)]) == 0
    capsys.readouterr()
    ours = answers(capsys, "recommendations", "--log", str(log))
    theirs = answers(capsys, "recommendations", "--log", str(shown))
    figures = sorted(line.split()[2] for line in ours.splitlines())
    assert sorted(line.split()[2] for line in theirs.splitlines()) == figures
    assert not {"search", "ledger", "payments", "shop"} & set(theirs.replace("/", " ").split())
    assert cli.run(["replay", "--verify", "--log", str(shown)]) == 2
    assert "pseudonyms" in capsys.readouterr().err


def test_recording_until_it_is_stopped_writes_what_came_meanwhile(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none.parquet"
    before = signal.getsignal(signal.SIGTERM)

    def stop() -> None:
        while signal.getsignal(signal.SIGTERM) is before:  # a signal that comes before the command listens ends the tests
            time.sleep(0.01)
        # To this thread, so that nothing wakes the one that waits; a signal just before it waits does not either.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    assert cli.run(["record", str(file), "--log", str(log)]) == 0
    told = capsys.readouterr().err
    assert re.search(r"recording until Ctrl-C\nreading \d+ records of \d+ topics\n", told)
    assert " without a fact or decision of any cluster, ticks of the clock included, in " in told
    said = answers(capsys, "import", "--check", str(file))
    assert "ullage.vertical-policy-changed.v1" in said
    assert "metrics-scraped" not in said
    # All ticks are older: of them it has the one in force, which says where everything ended.
    [tick] = [tick for record in IncidentFile(file).records() if (tick := ClockRecord.decode(record)) is not None]
    assert tick.full
    assert ("pod-metrics", 0) in tick.ends


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("export", "hour.json"), "must end in .parquet"),
        (("export", "a.parquet", "--from", "25:00"), "--from '25:00' is no time"),
        (("export", "a.parquet", "--from", "00:40", "--to", "00:20"), "is not after --from"),
        (("export", "a.parquet", "--topic", "pods"), "--topic 'pods' is none"),
        (("record", "a.parquet", "--for", "soon"), "--for 'soon' is no length of time"),
    ],
)
def test_wrong_usage_is_one_line_and_exits_with_2(
    words: tuple[str, ...],
    says: str,
    log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(log.parent)
    assert cli.run([*words, "--log", str(log)]) == 2
    said = capsys.readouterr().err.strip()
    assert says in said
    assert "\n" not in said
