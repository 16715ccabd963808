"""`ullage policy new|lint|test`, and a policy as code in a backtest."""

import json
from pathlib import Path

import pytest

from agents import cli
from agents.policies import policy_trial

HEAD = "import numpy as np\nfrom agents.logic.vertical.policy_code import RecommendedColumns, EvidenceColumns\n"
DECLARED = "\n\ndef recommend(usage: EvidenceColumns) -> RecommendedColumns:\n"


def ran(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    found = cli.run(list(words))
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def test_lint_names_file_line_and_reason_and_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "late.py"
    file.write_text(f"import time\n{HEAD}{DECLARED}    return usage.builtin\n", encoding="utf-8")
    out, err = ran(capsys, "policy", "lint", str(file), code=1)
    assert (out, err) == (f"{file}:1: 'import time' reaches the clock\n", f"1 found in {file}\n")


def test_new_never_writes_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    ran(capsys, "policy", "new", str(file))
    _, err = ran(capsys, "policy", "new", str(file), code=2)
    assert err == f"ullage: '{file}' is there already, and is left as it is\n"
    _, err = ran(capsys, "policy", "new", str(tmp_path / "mine.txt"), code=2)
    assert "a policy's file ends in .py" in err


@pytest.mark.parametrize("words", [("test", "--seconds", "0"), ("lint", "--memory", "0")])
def test_a_limit_of_nothing_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    _, err = ran(capsys, "policy", words[0], "mine.py", *words[1:], code=2)
    assert "is no limit" in err


@pytest.mark.slow
def test_what_new_writes_passes_lint_and_test_and_is_scored_beside_the_built_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "steady.py"
    ran(capsys, "policy", "new", str(file))
    out, err = ran(capsys, "policy", "lint", str(file))
    assert out == ""
    assert "is a policy" in err
    out, _ = ran(capsys, "policy", "test", str(file))
    lines = out.splitlines()
    assert lines[0].startswith("policy steady@")
    assert lines[1] == "deterministic: yes"
    assert lines[2].endswith(" ms for 1,000 containers")
    assert all(any(name in line for line in lines[3:]) for name in ("default", "steady", "recorded", "oracle"))


@pytest.mark.slow
def test_an_answer_that_hangs_on_its_company_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "herd.py"
    body = (
        "    mean = np.full(len(usage.samples), usage.recent_peak.mean())\n    b = usage.builtin\n"
        "    return RecommendedColumns(b.lower_cpu, b.target_cpu, b.upper_cpu, mean, mean, mean)\n"
    )
    file.write_text(f"{HEAD}{DECLARED}{body}", encoding="utf-8")
    out, _ = ran(capsys, "policy", "lint", str(file), code=1)
    assert "asked of fewer containers at once, it answers otherwise: lower_memory of container 0" in out


@pytest.mark.slow
def test_lint_finds_wrong_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "typed.py"
    file.write_text(f"{HEAD}LIMIT: int = '3'\n{DECLARED}    return usage.builtin\n", encoding="utf-8")
    out, _ = ran(capsys, "policy", "lint", str(file), code=1)
    assert "typed.py:3: error: Incompatible types in assignment" in out


@pytest.mark.slow
def test_a_backtest_scores_a_policy_as_code_beside_the_built_in_and_ends_one_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = policy_trial.write_trace(tmp_path)
    same, wide, broken = (tmp_path / f"{name}.py" for name in ("same", "wide", "broken"))
    same.write_text(f"{HEAD}{DECLARED}    return usage.builtin\n", encoding="utf-8")
    body = "    return RecommendedColumns(*[2.0 * amounts for _, amounts in usage.builtin.columns()])\n"
    wide.write_text(f"{HEAD}{DECLARED}{body}", encoding="utf-8")
    broken.write_text(f"{HEAD}{DECLARED}    return usage.builtin.columns\n", encoding="utf-8")
    named = ("--policy", str(same), "--policy", str(wide))
    out, _ = ran(capsys, "backtest", str(trace), *named, "--baseline", "default", "-o", "json")
    by_name = {each["policy"]: each for each in json.loads(out)["differences"]}
    assert by_name["same"]["cost"] == {"estimate": 0.0, "low": 0.0, "high": 0.0}
    assert by_name["wide"]["cost"]["low"] > 0.5
    _, err = ran(capsys, "backtest", str(trace), "--policy", str(broken), code=2)
    assert err.endswith("ullage: the policy 'broken' failed: it returned method, not RecommendedColumns\n")
