"""`ullage backtest` with several policies and `ullage diff`, over a quarter of an hour of the demo's shop."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import duckdb
import pytest

from agents import cli
from tests.support import demo_hour_log

POLICIES = ("--policy", "default", "--policy", "wide:vertical.margin=1.3")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("kept"), hours=0.25)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert cli.run(list(words)) == code, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def compared(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("out") / "compared.json"
    assert cli.run(["backtest", str(log), *POLICIES, "-o", "json", "--fileoutput", str(file)]) == 0
    return json.loads(file.read_text())


def test_every_policy_is_scored_beside_upstream_the_recording_and_the_oracle(compared: Any) -> None:
    assert [each["name"] for each in compared["policies"]] == ["upstream", "default", "wide", "recorded", "oracle"]
    assert {len(each["workloads"]) for each in compared["policies"]} == {10}
    cost = {each["name"]: sum(w["cost"] for w in each["workloads"]) for each in compared["policies"]}
    assert cost["oracle"] < cost["upstream"] < cost["wide"]
    assert compared["prices"]["origin"] == "OpenCost's default rates"


def test_twice_the_margin_shows_in_the_difference_and_its_interval(compared: Any) -> None:
    [default, wide] = [each for each in compared["differences"] if each["policy"] in {"default", "wide"}]
    assert default["cost"] == {"estimate": 0.0, "low": 0.0, "high": 0.0}
    assert 0 <= wide["cost"]["low"] < wide["cost"]["estimate"] < wide["cost"]["high"]


@pytest.mark.parametrize(("workloads", "says"), [(1, "; of 1 workload they are too narrow"), (3, "3 workloads they"), (5, "")])
def test_of_few_workloads_it_is_said_that_intervals_are_too_narrow(
    workloads: int, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [f"{60 * n},shop,w{w},w{w}-1,main,0.1,{64 << 20},0.2,{1 << 30}" for n in range(30) for w in range(workloads)]
    names = "timestamp_s,namespace,workload,pod,container,cpu_cores,memory_bytes,cpu_request_cores,memory_request_bytes"
    usage = tmp_path / "usage.csv"
    usage.write_text("\n".join([names, *rows]))
    told = said(capsys, "backtest", str(usage), *POLICIES, "-o", "wide")
    assert ("too narrow" in told) == bool(says)
    assert says in told


def test_a_gate_is_for_the_policies_that_were_named_and_exits_with_3(
    log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = ("--fileoutput", str(tmp_path / "out.md"), "-o", "md")
    said(capsys, "backtest", str(log), "--policy", "wide:vertical.margin=1.3", "--max-regression", "1%", *out, code=3)
    said(capsys, "backtest", str(log), "--policy", "default", "--max-regression", "1%", *out)
    lines = (tmp_path / "out.md").read_text().splitlines()
    assert lines[0].startswith("| policy | cost (USD) | against baseline |")
    assert [line.split("|")[1].strip() for line in lines[2:6]] == ["upstream", "default", "recorded", "oracle"]


@pytest.mark.slow
def test_diff_ranks_workloads_and_says_both_figures(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "diff", "default", "wide:vertical.margin=1.3", "--data", str(log), "--top", "2", "-o", "table")
    lines = text.splitlines()
    assert lines[0].startswith("'wide' against 'default': cost +")
    assert "COST (USD)" in text
    assert len([line for line in lines if "Deployment/" in line]) == 2
    assert "no workload differs" in said(capsys, "diff", "default", "same:vertical.margin=0.15", "--data", str(log))


@pytest.mark.slow
def test_rows_for_programs_are_the_same_in_every_form(log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("backtest", str(log), "--policy", "default")
    rows = list(csv.DictReader(io.StringIO(said(capsys, *words, "-o", "csv"))))
    parquet, page = tmp_path / "rows.parquet", tmp_path / "page.html"
    said(capsys, *words, "-o", "parquet", "--fileoutput", str(parquet))
    of_parquet = duckdb.read_parquet(str(parquet)).project("policy, name, kills, cost").fetchall()
    assert [(r["policy"], r["name"], int(r["kills"]), float(r["cost"])) for r in rows] == of_parquet
    said(capsys, *words, "-o", "html", "--fileoutput", str(page))
    assert page.read_text().count("<tr>") == 5
    assert "http" not in page.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("backtest", "FILE", "--policy", "best"), "'best' is no policy: give default, upstream, adaptive, recorded, oracle"),
        (("backtest", "FILE", "--policy", "x:vertical.nonsense=1"), "there is no setting 'vertical.nonsense'"),
        (("backtest", "FILE", "--policy", "none.yaml"), "does not exist"),
        (("backtest", "FILE", "--policy", "default", "-o", "parquet"), "give --fileoutput"),
        (("backtest", "FILE", "--policy", "default", "-o", "svg"), "-o svg draws what --frontier asks for"),
        (("backtest", "FILE", "--policy", "default", "--rows", "sample"), "samples are written as Parquet only"),
        (("backtest", "FILE", "--policy", "default", "--max-regression", "lots"), "is no share"),
        (("backtest", "FILE", "--frontier", "vertical.risk_cpu=0.1"), "is no setting with several values"),
        (("backtest",), "give either a FILE with recorded usage or --prometheus-url, and not both"),
        (("backtest", "FILE", "-p", "http://127.0.0.1:1"), "give either a FILE with recorded usage or --prometheus-url"),
        (("backtest", "FILE", "--keep", "kept.parquet"), "--keep is for what --prometheus-url gives"),
        (("backtest", "-p", "http://127.0.0.1:1", "--keep", "kept.csv"), "give it a name in .parquet"),
        (("backtest", "-p", "http://127.0.0.1:1"), "reading what is stored did not work"),
        (("diff", "default", "default", "--data", "FILE"), "two policies are called 'default'"),
        (("diff", "default", "upstream", "--data", "FILE", "--top", "0"), "--top 0 shows nothing"),
        (("diff", "default", "upstream", "--data", "no.parquet"), "there is no trace"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(
    words: tuple[str, ...], says: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([str(log) if word == "FILE" else word for word in words]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_a_frontier_has_the_settings_values_beside_upstream_margins(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    knob = "vertical.margin=0.2,1.3"
    drawn = json.loads(said(capsys, "backtest", str(log), "--policy", "default", "--frontier", knob, "-o", "json"))["frontier"]
    by_name = {row["policy"]: row for row in drawn}
    assert by_name["upstream, margin 0.15"]["CPU"] == "1.00"
    low, high = (float(by_name[f"vertical.margin {value}"]["cores"]) for value in ("0.2", "1.3"))
    margins = [float(row["cores"]) for name, row in by_name.items() if name.startswith("upstream")]
    assert margins == sorted(margins)
    assert min(margins) < low < max(margins) < high


def test_a_price_list_without_a_policy_is_not_ignored(log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said(capsys, "backtest", str(log), "--prices", str(tmp_path / "none.csv"), code=2)
    prices = tmp_path / "prices.csv"
    prices.write_text("cpu,1\nmemory,0.5\ncurrency,EUR\n")
    scored = json.loads(said(capsys, "backtest", str(log), "--prices", str(prices), "-o", "json"))
    assert scored["prices"]["currency"] == "EUR"
    assert [each["name"] for each in scored["policies"]] == ["upstream", "default", "recorded", "oracle"]


def test_figures_follow_from_the_rows_of_samples(log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    policies = ("backtest", str(log), "--policy", "default")
    said(capsys, *policies, "-o", "parquet", "--rows", "sample", "--fileoutput", str(rows))
    scored = json.loads(said(capsys, *policies, "-o", "json"))["policies"][:2]
    with duckdb.connect() as db:
        found = db.sql(f"""select policy, sum(cpu_requested * seconds) filter (cpu_used is not null) / 3600,
            sum((cpu_used > cpu_requested)::int * seconds) / sum(seconds) filter (cpu_used is not null)
            from '{rows}' group by policy""").fetchall()  # noqa: S608  # a path of ours
    by_policy = {policy: figures for policy, *figures in found}
    for each in scored:
        cores = sum(one["cpu_requested"] for one in each["workloads"])
        hours = sum(one["container_hours"] for one in each["workloads"])
        over = sum(one["cpu_over"] * one["container_hours"] for one in each["workloads"]) / hours
        assert by_policy[each["name"]] == [pytest.approx(cores, rel=1e-6), pytest.approx(over, abs=1e-6)]


def test_a_frontier_is_drawn_with_a_point_for_each_policy(log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "frontier.svg"
    knob = "vertical.margin=0.2,1.3"
    said(capsys, "backtest", str(log), "--policy", "default", "--frontier", knob, "-o", "svg", "--fileoutput", str(picture))
    svg = ET.fromstring(picture.read_text())  # noqa: S314  # our own
    circles = [part.attrib["class"] for part in svg.iter("{http://www.w3.org/2000/svg}circle")]
    assert (circles.count("upstream"), circles.count("policy")) == (8, 4)
    assert "prefers-color-scheme: dark" in picture.read_text()


def test_a_comparison_says_what_is_saved_and_how_much_cpu_was_short(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("backtest", str(log), *POLICIES)
    whole = json.loads(said(capsys, *asked, "-o", "json"))["policies"]
    sums = [
        {name: sum(one[f"cpu_{name}"] for one in each["workloads"]) for name in ("used", "requested", "slack")} for each in whole
    ]
    header, *lines = (line.split("|") for line in said(capsys, *asked, "-o", "md").splitlines() if line.startswith("|"))
    names = [name.strip() for name in header]
    for of, line in zip(sums, lines[1:], strict=True):
        row = dict(zip(names, (cell.strip() for cell in line), strict=True))
        assert row["cpu short"] == f"{(of['used'] + of['slack'] - of['requested']) / of['used']:.2%}"
        assert row["core-hours saved"] in ("", f"{sums[0]['requested'] - of['requested']:,.1f}")
