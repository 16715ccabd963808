"""Amounts in people's units, in whatever a command prints of a log whose amounts are as odd as the bounds of events allow.

Cores and bytes go through `schemas.units`. The tables of `backtest` and `diff` are core-hours and GiB-hours, sums over time in
one unit for a whole column, and JSON has cores and bytes as numbers; these are left out here.
"""

import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import cli
from schemas import bounds, units
from tests.support import demo_hour_log

CORES = (0.0, 1e-9, 0.0004, 0.001, 0.25, 3.0, 99.9996, 1000.0, 862_804.0, bounds.MOST_CORES)
SIZES = (0, 1, 1023, 1 << 20, (1 << 30) - 1, 93_132 << 30, 10**15, int(bounds.MOST_BYTES))
AMOUNTS: dict[str, tuple[float, ...]] = {"cpu": CORES, "memory": SIZES, "memory_request": SIZES, "memory_limit": SIZES}
COMMANDS = (
    ("status",),
    ("recommendations",),
    ("recommendations", "-o", "wide"),
    ("why", "payments/ledger"),
    ("why", "shop/web"),
    ("why", "shop/web", "-v"),
    ("why-not", "payments/ledger"),
    ("plan",),
    ("timeline",),
    ("replay", "--set", "vertical.margin=0.5"),
    ("report", "report.html"),
)
ODD = re.compile(
    r"\d{6,}m\b"  # 100000000000000m
    r"|(?<![\d,.])[\d,]*\d{4,}\.\d+ [KMGT]iB"  # 93132.26 GiB
    r"|-[\d.,]+(?:m| cores| [KMGT]iB)[^.;]* (?:to be|would be) freed"  # -862804m CPU to be freed
    r"|(?<![\d.,])0\.0+ (?:cores|[KMGT]?i?B\b)"  # 0.0 MiB
    r"|(?<![\w-])-?(?:nan|inf)(?:m| cores| [KMGT]iB)"
    r"|\b(?:of|to|from) (?:\?|None)(?!\w)"  # upper memory of ?, from None to None
)
BARE = re.compile(r"\b(?:memory|killed_under|limit|size)\w*:? -?\d{5,}\b(?!\.)")
"""Memory without a unit: (memory 268435456). Only `-v` says numbers as the record has them."""
TEXT = re.compile(r"(-?)(<?)([\d,]+(?:\.\d+)?)(m| cores| [KMGTPE]?i?B)")
SCALE = {"m": 0.001, " cores": 1.0, **{f" {p}iB": 1024.0 ** (n + 1) for n, p in enumerate("KMGTPE")}, " B": 1.0}


@given(st.floats(-1e15, 1e15), st.sampled_from([units.cpu_text, units.bytes_text]))
def test_an_amount_in_words_is_that_amount(amount: float, form: Callable[[float], str]) -> None:
    shown = amount if form is units.cpu_text else float(round(amount))
    text = form(shown)
    assert not ODD.search(text), text
    match = TEXT.fullmatch(text)
    assert match, text
    sign, less, number, unit = match.groups()
    value = float(number.replace(",", "")) * SCALE[unit]
    assert bool(sign) == (shown < 0)
    assert (value == 0) == (shown == 0)
    half = 0.5 * SCALE[unit] / 10 ** len(number.partition(".")[2])
    assert abs(shown) < value if less else math.isclose(value, abs(shown), rel_tol=1e-9, abs_tol=1.000001 * half)


@given(
    st.sampled_from(
        ["cpu", "limits.cpu", "memory", "requests.memory", "ephemeral-storage", "pods", "count/pods", "nvidia.com/gpu"]
    ),
    st.lists(st.integers(0, 10**15), min_size=1, max_size=4),
)
def test_amounts_beside_each_other_differ_in_words_as_they_do_in_numbers(resource: str, amounts: list[int]) -> None:
    whole = [amount / 10**6 if resource.endswith("cpu") else float(amount) for amount in amounts]
    texts = units.amount_texts(resource, *whole)
    assert len(set(texts)) == len(set(whole))
    counted = resource.rpartition(".")[2] in ("pods", "count/pods", "com/gpu")
    assert all(bool(re.fullmatch(r"[\d,]+", text)) == counted for text in texts), texts


def changed(body: Any, chance: random.Random) -> Any:
    """The body of a record with other amounts, here and there."""
    if isinstance(body, list):
        return [changed(each, chance) for each in body]
    if not isinstance(body, dict):
        return body
    return {
        name: chance.choice(AMOUNTS[name])
        if name in AMOUNTS and isinstance(value, int | float) and chance.random() < 0.3
        else changed(value, chance)
        for name, value in body.items()
    }


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("day"), hours=0.4)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 21))])
def test_no_output_has_amounts_in_odd_units(
    seed: int, day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, log = random.Random(seed), tmp_path / "log.jsonl"  # a test's
    with log.open("w", encoding="utf-8") as file:
        for line in day.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            value = record.get("value")  # a text; checkpoints have bytes
            if isinstance(value, str) and record.get("at", "").split(".")[1:2] != ["clock"] and value.startswith("{"):
                record["value"] = json.dumps(changed(json.loads(value), chance))
            file.write(json.dumps(record) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    for words in COMMANDS:
        code = cli.run([*words, "--log", "log.jsonl"])
        said = capsys.readouterr()
        text = said.out + said.err
        if words[0] == "report" and code == 0:
            text += re.sub(r"<script.*?</script>", "", Path("report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
        assert code in {0, 1, 2, 3}, text
        matches = [*ODD.finditer(text), *(() if "-v" in words else BARE.finditer(text))]
        assert [text[max(0, at.start() - 80) : at.end() + 30] for at in matches] == [], f"{words}, exit {code}"
