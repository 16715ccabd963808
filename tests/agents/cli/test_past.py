"""`--at`, `ullage timeline` and `ullage history` on an hour of the demo's shop."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agents import cli
from streams import log_range
from streams.log.file_log import FileLog
from streams.topics import Topics
from tests.support import demo_hour_log

TOPICS = ("recommendations", "pod-updates", "outcomes")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("kept"), hours=0.8)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same shop, stopped at 00:24: what a log looked like then."""
    return demo_hour_log.keep(tmp_path_factory.mktemp("earlier"), hours=0.4)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert cli.run(list(words)) == code, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [("recommendations", "-o", "json"), ("plan", "-o", "json"), ("why", "shop/Deployment/search")], ids=lambda w: w[0]
)
def test_what_was_said_then_is_said_again(
    words: tuple[str, ...], log: Path, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ("--config", str(log.with_name("ullage.yaml")))
    then = said(capsys, *words, *config, "--log", str(earlier))
    assert said(capsys, *words, *config, "--log", str(log), "--at", "00:24") == then
    assert said(capsys, *words, *config, "--log", str(log)) != then


def test_a_timeline_has_every_update_once_in_order_and_the_outcome_after_its_plan(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = json.loads(said(capsys, "timeline", "--log", str(log), "-o", "json"))
    assert [each["at"] for each in entries] == sorted(each["at"] for each in entries)
    what = [each["what"] for each in entries]
    published = len(said(capsys, "tap", "pod-updates", "--type", "ResizePlanned", "-o", "jsonl", "--log", str(log)).splitlines())
    assert what.count("resize planned") == published > 5
    resized = [each["what"] for each in entries if "resize" in str(each)]
    assert resized.index("resize planned") < resized.index("action finished")
    assert what.count("control changed") == 1
    assert "container OOM-killed" in what
    assert "requests recommended" not in what


def test_a_timeline_may_be_of_a_namespace_a_workload_and_a_stretch(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("timeline", "--log", str(log), "-o", "json")
    payments = json.loads(said(capsys, *here, "-n", "pay*"))
    assert {each["about"].split("/")[1] for each in payments if each["about"].count("/") == 3} == {"payments"}
    ledger = json.loads(said(capsys, *here, "--workload", "ledger", "--all"))
    assert json.loads(said(capsys, *here, "--workload", "payments/ledger", "--all")) == ledger
    assert {each["about"] for each in ledger} == {"demo/payments/Deployment/ledger"}
    assert {"container OOM-killed", "requests recommended"} <= {each["what"] for each in ledger}
    late = json.loads(said(capsys, *here, "--from", "00:40", "--to", "00:45", "--limit", "3"))
    assert len(late) == 3
    assert all("00:40" <= each["at"][11:16] < "00:45" for each in late)


def test_a_history_has_each_change_of_a_value_and_no_repeat(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(capsys, "history", "ledger", "--log", str(log), "-o", "json"))
    assert json.loads(said(capsys, "history", "payments/ledger", "--log", str(log), "-o", "json")) == rows
    names = ("cpu", "memory", "cpu_lower", "cpu_upper", "memory_lower", "memory_upper")
    recommended = [tuple(row[name] for name in names) for row in rows if row["what"] == "recommended"]
    assert len(recommended) > 5
    assert all(one != two for one, two in itertools.pairwise(recommended))
    requested = [row["memory"] for row in rows if row["what"] == "requested"]
    assert requested[0] == 400 << 20
    assert requested[-1] > requested[0]
    assert {row["place"].split(":")[0] for row in rows} == {"ullage.pod-changes.v1", "ullage.recommendations.v1"}


@pytest.mark.parametrize("form", ["table", "csv", "md", "html"])
def test_every_form_has_the_same_lines(form: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "timeline", "--log", str(log), "-o", form)
    entries = json.loads(said(capsys, "timeline", "--log", str(log), "-o", "json"))
    assert text.count("resize planned") == sum(each["what"] == "resize planned" for each in entries) > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("history", "nobody"), "nothing was ever recommended for a workload 'nobody'"),
        (("timeline", "--from", "soon"), "--from 'soon' is no time"),
        (("why", "ledger", "--at", "later"), "log.at 'later' is no time"),
        (("plan", "--at", "2099-01-01"), "log.at is '2099-01-01', and the log's newest tick is of 2026-"),
        (("pause", "--reason", "x", "--set", "log.at=00:10"), "nothing is appended to the log as it was at"),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...], says: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*words, "--log", str(log)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("words", [("timeline",), ("history", "search")], ids=lambda words: words[0])
def test_a_stretch_that_ends_before_it_begins_is_refused(
    words: tuple[str, ...], log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not said(capsys, *words, "--log", str(log), "--from", "00:30", "--to", "00:20", code=2)
    assert cli.run([*words, "--log", str(log), "--from", "00:30", "--to", "00:20"]) == 2
    assert capsys.readouterr().err == "ullage: --to 00:20 is not after --from 00:30\n"


@pytest.fixture(scope="module")
def cut(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log after retention took what was decided, and what was measured, before 00:30."""
    path = tmp_path_factory.mktemp("cut") / "log.jsonl"
    path.write_bytes(log.read_bytes())
    path.with_name("ullage.yaml").write_bytes(log.with_name("ullage.yaml").read_bytes())
    at = datetime(2026, 1, 5, 0, 30, tzinfo=UTC)
    with FileLog(path) as kept:
        for name in ("recommendations", "recommendations-by-cluster", "pod-updates", "pod-metrics"):
            topic = Topics("ullage").wire(name)
            for partition in range(kept.partitions(topic)):
                kept.truncate(topic, partition, log_range.offset_at(kept, topic, partition, at))
    return path


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (("timeline",), "pod-updates before 2026-01-05 00:3"),
        (("timeline", "--from", "00:10", "--to", "00:20"), "pod-updates before 2026-01-05 00:3"),
        (("history", "shop/search"), "recommendations before 2026-01-05 00:3"),
        (("recommendations", "--at", "00:20"), "no recommendation for cluster 'demo' of that time is kept; gone from this log: "),
        (("recommendations", "--at", "00:40"), "rows or amounts may be missing; gone from this log: parts of recommendations"),
        (("plan", "--at", "00:40"), "reckoned from what is kept; gone from this log: "),
        (("replay", "--set", "guard.budget=5%", "--from", "00:35"), "both sides begin with what is kept; gone from this log: "),
    ],
    ids=lambda w: " ".join(w) if isinstance(w, tuple) else "",
)
def test_what_retention_took_is_told_and_never_what_it_left(
    words: tuple[str, ...], lost: str, cut: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ("--config", str(cut.with_name("ullage.yaml")))
    capsys.readouterr()
    assert cli.run([*words, *config, "--log", str(cut)]) == 0
    assert lost in capsys.readouterr().err
    assert cli.run([*words, *config, "--log", str(log)]) == 0
    assert "gone from this log" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [("why", "shop/Deployment/search", "--at", "00:20"), ("history", "nobody")], ids=lambda w: w[0])
def test_a_workload_whose_recommendations_are_gone_is_not_said_to_have_none_yet(
    words: tuple[str, ...], cut: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ("--config", str(cut.with_name("ullage.yaml")), "--log", str(cut))
    capsys.readouterr()
    assert cli.run([*words, *config]) == 2
    said = capsys.readouterr().err
    assert "no recommendation for " in said
    assert "is kept" in said
    assert "gone from this log: " in said
    assert "yet" not in said


def test_a_stretch_that_is_kept_whole_is_told_without_a_warning(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.run(["timeline", "--from", "00:40", "--log", str(cut)]) == 0
    assert "gone" not in capsys.readouterr().err
