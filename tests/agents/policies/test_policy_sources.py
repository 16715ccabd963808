"""Policies written as code: what is refused with its line and reason, how one is named, and how limits end one."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agents.commands.compare.policy_code_command import TEMPLATE
from agents.logic.vertical.policy_code import EvidenceColumns, RecommendedColumns, answer
from agents.logic.vertical.policy_feed import nothing_remembered
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.policies import policy_limits, policy_purity, policy_sources
from agents.policies.policy_limits import PolicyLimits, PolicyWatch
from agents.policies.policy_sources import PolicySource
from agents.policies.policy_trial import made_up_usage
from agents.run import pipeline
from agents.settings.all_settings import Settings
from schemas.units import Bytes, Seconds
from streams.errors import BadInput

HEAD = "from agents.logic.vertical.policy_code import RecommendedColumns, EvidenceColumns\nimport numpy as np\n"
DECLARED = "def recommend(usage: EvidenceColumns) -> RecommendedColumns:\n"
GOOD = f"{HEAD}{DECLARED}    return usage.builtin\n"


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def faults(text: str) -> Sequence[str]:
    return [str(fault) for fault in PolicySource("mine", Path("mine.py"), text).faults()]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("import time", "'import time' reaches the clock"),
        ("from datetime import datetime", "'import datetime' reaches the clock"),
        ("import random", "'import random' reaches chance"),
        ("x = np.random.default_rng()", "'.random' reaches chance"),
        ("from numpy import random", "'from numpy import random' reaches chance"),
        ("import numpy.random", "'import numpy.random' reaches chance"),
        ("from urllib.request import urlopen", "'import urllib.request' reaches the network"),
        ("import socket", "'import socket' reaches the network"),
        ("x = open('/etc/hosts')", "'open' reaches files"),
        ("x = np.load('a.npy')", "'.load' reaches files"),
        ("import threading", "'import threading' reaches threads and processes"),
        ("import os", "'import os' reaches the environment"),
        ("x = np.empty(3)", "'.empty' reaches whatever was in memory before"),
        ("x = ().__class__", "'.__class__' reaches the interpreter itself"),
        ("x = __builtins__", "'__builtins__' reaches the interpreter itself"),
        ("x = eval('1')", "'eval' reaches the interpreter itself"),
        ("x = len(repr(object()))", "a text of an object may show its address"),
        ("x = str(np.zeros(1))", "a text of an object may show its address"),
        ("x = f'{recommend}'", "a text of an object may show its address"),
        ("x = '%s' % (recommend,)", "a text of an object may show its address"),
        ("x = np.zeros(1).data", "'.data' reaches an address that differs between processes"),
        ("usage.builtin.target_cpu[0] = 1.0", "'usage.builtin' is what others read"),
        ("usage.builtin.target_cpu[:] += 1.0", "'usage.builtin' is what others read"),
        ("np.add(1.0, 2.0, out=usage.builtin.target_cpu)", "'usage.builtin' is what others read"),
        ("usage.builtin.target_cpu.sort()", "'usage.builtin' is what others read"),
        ("x = hash('a')", "'hash' reaches an address or a seed that differs between processes"),
        ("SEEN: dict[str, int] = {}", "a list, dict, set or generator outside of functions can keep something; make it a tuple"),
        ("x = max(y for y in {'a', 'b'})", "the order of a set differs between processes; sorted(...) has one"),
        ("x = next(iter(set('ab')))", "the order of a set differs between processes; sorted(...) has one"),
        ("from .other import x", "a relative import reaches other files"),
        ("from dataclasses import sys", "'from dataclasses import sys' reaches the environment"),
        ("import enum; x = enum.bltns", "'enum.bltns' reaches the interpreter itself"),
        ("from statistics import random", "'from statistics import random' reaches chance"),
        ("x = np.ma.extras", "'np.ma.extras' reaches the interpreter itself"),
        ("from operator import attrgetter", "'from operator import attrgetter' reaches the interpreter itself"),
        ("import statistics as s; x = s.NormalDist().samples(3)", "'.samples()' reaches chance"),
        ("x = np.array('now', np.dtype('i8'))", "'now' reaches the clock when numpy makes a time of it"),
        ("x = np.zeros(1).astype('M8[s]')", "'M8[s]' reaches the clock when numpy makes a time of it"),
        ("x = np.is_busday(0)", "'.is_busday' reaches the clock"),
        ("x = np.ndarray((3,))", "'.ndarray()' reaches whatever was in memory before"),
        ("x = np.zeros(1).ctypes", "'.ctypes' reaches the interpreter itself"),
        ("x = np.gi_frame", "'.gi_frame' reaches the interpreter itself"),
        ("import itertools; C = itertools.count()", "what this call makes can keep something from one call to the next"),
        ("C = ((), [])", "a list, dict, set or generator outside of functions can keep something"),
        ("def k(kept: list[int] = []) -> None: pass", "a list, dict, set or generator as a default can keep something"),
        ("x = '{0.__class__}'.format(np)", "'.format' reaches attributes that a text names; an f-string shows which"),
        ("x = '{n.__class__}'.format_map({'n': np})", "'.format_map' reaches attributes that a text names"),
        ("import pandas", "'import pandas' is none of those that a policy may use: __future__, agents.logic"),
    ],
)
def test_what_is_impure_is_refused_with_its_line_and_reason(line: str, sentence: str) -> None:
    [fault] = faults(f"{HEAD}{line}\n{DECLARED}    return usage.builtin\n")
    assert fault.startswith(f"line 3: {sentence}")


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [("object(random=x)", "'.random' reaches chance"), ("type(__base__=x)", "'.__base__' reaches the interpreter itself")],
)
def test_a_pattern_asks_for_attributes_too(pattern: str, sentence: str) -> None:
    body = f"    match np:\n        case {pattern}:\n            pass\n    return usage.builtin\n"
    assert faults(f"{HEAD}{DECLARED}{body}") == [f"line 5: {sentence}"]


@pytest.mark.parametrize(
    ("top", "line", "name"),
    [
        ("C = np.zeros(1)", "C[0] += 1.0", "C"),
        ("class K: n = 0", "K.n = 1", "K"),
        ("def k() -> None: pass", "k.n = 1", "k"),
        ("", "np.seen = 1", "np"),
    ],
)
def test_what_a_call_writes_outside_of_functions_is_refused(top: str, line: str, name: str) -> None:
    found = faults(f"{HEAD}{top}\n{DECLARED}    {line}\n    return usage.builtin\n")
    assert found == [f"line 5: '{name}' is outside of functions, and what is written into it is kept from one call to the next"]


def test_what_keeps_nothing_is_let_through() -> None:
    top = "from collections.abc import Callable\nJudge = Callable[[int], float]\nSTEPS = np.array([1.0, 2.0])\n"
    body = "    found = [float(np.linalg.norm(STEPS))]\n    found[0] += float(usage.samples.sum())\n    return usage.builtin\n"
    assert faults(f"{HEAD}{top}{DECLARED}{body}") == []


@pytest.mark.parametrize("line", ["d = dataclasses\nx = d.sys", "(lambda d: d.sys)(dataclasses)"])
def test_a_module_shows_a_policy_none_that_it_may_not_import(tmp_path: Path, line: str) -> None:
    source = policy_sources.read(written(tmp_path, f"import dataclasses\n{line}\n{GOOD}"))
    assert not source.faults()
    with pytest.raises(BadInput, match="cannot be loaded: AttributeError: module 'dataclasses' has no attribute 'sys'"):
        policy_sources.load(source)


def test_every_module_that_is_allowed_can_be_imported_and_used(tmp_path: Path) -> None:
    imports = "".join(f"import {name}\n" for name in sorted(policy_purity.ALLOWED_MODULES) if name != "__future__")
    uses = "X = collections.abc.Sequence, agents.logic.vertical.policy_code.Floats, numpy.typing.NDArray, math.pi\n"
    source = policy_sources.read(written(tmp_path, f"from __future__ import annotations\n{imports}{uses}{GOOD}"))
    assert answer(policy_sources.load(source), made_up_usage(3), nothing_remembered(3)).shape == (6, 3)


def test_everything_wrong_is_named_and_a_good_policy_has_nothing_wrong() -> None:
    assert faults(GOOD) == faults(TEMPLATE) == []
    assert [fault.split(":")[0] for fault in faults(f"import os\nimport time\n{GOOD}")] == ["line 1", "line 2"]
    assert faults("def recommend(:") == ["line 1: this is no Python: invalid syntax"]


@pytest.mark.parametrize(
    "declared",
    [
        "def recommend(usage) -> RecommendedColumns:\n",
        "def recommend(usage: EvidenceColumns):\n",
        "def recommend(usage: EvidenceColumns, more: int = 1) -> RecommendedColumns:\n",
        "async def recommend(usage: EvidenceColumns) -> RecommendedColumns:\n",
        "def other(usage: EvidenceColumns) -> RecommendedColumns:\n",
    ],
)
def test_another_declaration_is_refused_with_the_one_that_is_wanted(declared: str) -> None:
    found = faults(f"{HEAD}{declared}    return usage.builtin\n")
    assert any("def recommend(usage: EvidenceColumns) -> RecommendedColumns" in fault for fault in found)


def test_what_the_check_by_syntax_misses_is_not_there_when_a_policy_runs(tmp_path: Path) -> None:
    source = policy_sources.read(written(tmp_path, f"{GOOD}assert callable(open)\n".replace("open", "print")))
    assert source.faults()
    builtins = policy_sources._guarded_builtins()
    assert not {"open", "eval", "exec", "getattr", "print", "__import__"} & builtins.keys() - {"__import__"}
    with pytest.raises(ImportError, match="a policy may not import 'os'"):
        builtins["__import__"]("os")  # type: ignore[operator]  # the import of a policy


def test_a_policy_is_named_by_its_file_and_the_digest_of_its_source_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    here, there = written(tmp_path, GOOD), written(tmp_path / "other", GOOD)
    one, two = (policy_sources.read(file).reference for file in (here, there))
    assert one == two
    assert one.startswith("mine@")
    assert policy_sources.read(written(tmp_path, f"{GOOD}\n")).reference != one


def test_the_rules_of_the_stage_name_the_policy_by_its_digest_and_settings_by_its_path(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    reference = policy_sources.read(file).reference
    settings = Settings(vertical=VerticalSettings(policy=file, shadow_policy="built-in"))
    recommender = pipeline.stages(settings)[0]
    assert (recommender.rules["policy"], recommender.rules["shadow_policy"]) == (reference, "built-in")
    recommender.open(0)


def test_a_replay_without_the_policy_that_decided_is_refused_with_what_to_do(tmp_path: Path) -> None:
    found = policy_sources.resolved(VerticalSettings(policy=written(tmp_path, GOOD)))
    with pytest.raises(BadInput, match="the rules in the log name the policy 'mine@00', and this process has mine@"):
        found.policy_of("mine@00")


def test_an_entry_point_is_read_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD, "installed_policy.py")
    monkeypatch.syspath_prepend(tmp_path)
    offered = [EntryPoint("steady", "installed_policy", policy_sources.ENTRY_POINTS)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: offered if group == "ullage.policies" else [])
    source = policy_sources.read("steady")
    assert (source.name, source.text) == ("steady", GOOD)
    usage = made_up_usage(5)
    amounts = answer(policy_sources.load(source), usage, nothing_remembered(5))
    assert amounts.tolist() == [column.tolist() for _, column in usage.builtin.columns()]
    with pytest.raises(BadInput, match=r"'other' is no policy: .*; there are: steady"):
        policy_sources.read("other")


def load(file: str) -> str:
    usage = made_up_usage(5)
    answer(policy_sources.load(policy_sources.read(file)), usage, nothing_remembered(5))
    return "answered"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("    while True:\n        pass\n", "the policy 'mine' was ended: one call took more than 0.5 s of CPU time"),
        ("    x = np.zeros(1 << 40)\n    return usage.builtin\n", "the policy 'mine' failed: it asked for more than 256 MiB"),
        (
            "    kept = []\n    for i in range(1 << 40):\n        kept.append(' ' * (1 << 20))\n    return usage.builtin\n",
            "the policy 'mine' failed: it asked for more than 256 MiB",
        ),
        ("    return 1 // 0\n", "the policy 'mine' failed: it raised ZeroDivisionError: integer division or modulo by zero"),
        ("    return 1\n", "the policy 'mine' failed: it returned int, not RecommendedColumns"),
    ],
)
def test_a_policy_that_does_not_end_or_fills_memory_is_ended_and_named(tmp_path: Path, body: str, sentence: str) -> None:
    limits = PolicyLimits(Seconds(0.5), Bytes(256 << 20))
    with pytest.raises(BadInput) as raised:
        policy_limits.run_limited("mine", limits, load, written(tmp_path, f"{HEAD}{DECLARED}{body}"))
    assert str(raised.value) == sentence


@pytest.mark.slow
def test_a_policy_within_its_limits_gives_its_answer(tmp_path: Path) -> None:
    assert policy_limits.run_limited("mine", PolicyLimits(), load, written(tmp_path, GOOD)) == "answered"


SPIN = "    n = 0\n    while n < 10**12:\n        n += 1\n    return usage.builtin\n"
WORKER = """
import sys
from agents.app import worker_plan
from agents.policies.policy_trial import made_up_usage
from agents.settings.all_settings import Settings
settings = Settings(vertical={"policy": sys.argv[1]}, worker={"policy_seconds": 0.5})
(stage,) = (each for each in worker_plan.from_settings(settings).stages if each.name == "recommender")
policy = stage.open(0)._policy_of(sys.argv[2])
policy.recommend(made_up_usage(3), None)
print("it came back")
"""


def test_a_policy_that_does_not_come_back_ends_its_worker_and_is_named(tmp_path: Path) -> None:
    for body, code in (("    return usage.builtin\n", 0), (SPIN, 78)):
        file = written(tmp_path, f"{HEAD}{DECLARED}{body}")
        reference = policy_sources.read(file).reference
        ended = subprocess.run(
            [sys.executable, "-c", WORKER, file, reference], capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == code, ended.stderr
    assert f"one call of the policy '{reference}' took more than 0.5 s of CPU time (worker.policy_seconds)" in ended.stderr


def test_a_call_that_waits_for_others_is_not_late() -> None:
    late: list[str] = []
    watch = PolicyWatch(Seconds(0.3), late.append, look=Seconds(0.05))

    def slow(usage: EvidenceColumns) -> RecommendedColumns:
        threading.Event().wait(0.6)
        return usage.builtin

    watch.watched("slow@1", slow)(made_up_usage(3))
    assert not late

    def busy(usage: EvidenceColumns) -> RecommendedColumns:
        while not late:
            pass
        return usage.builtin

    watch.watched("busy@1", busy)(made_up_usage(3))
    assert late == ["one call of the policy 'busy@1' took more than 0.3 s of CPU time"]
