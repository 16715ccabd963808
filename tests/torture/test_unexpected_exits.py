"""An end of a process that the torture did not bring about makes a run WRONG, and one that it did does not."""

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.torture.forked_processes import ForkedProcess
from tests.torture.processes import Process, ProcessEnd, Running, start_interpreter
from tests.torture.unexpected_exits import PATIENCE, unexpected

AT = 1_000.0


def ended(tmp_path: Path, *codes: int, log: str = "", at: float = AT) -> Process:
    process = Process("none", {}, tmp_path / "worker0.log")
    process.log.write_text(log)
    process.ends += [ProcessEnd(code, at - 0.5, at) for code in codes]
    return process


@pytest.mark.parametrize("code", [0, 1, 70, 78, -9, -11])
def test_an_end_with_any_code_that_nobody_provided_for_is_wrong(tmp_path: Path, code: int) -> None:
    assert unexpected([ended(tmp_path, code)], [(0.0, 2 * AT)]) == [f"worker0 ended by itself with code {code}"]


def test_the_sentence_quotes_what_the_log_says_of_that_end(tmp_path: Path) -> None:
    log = '{"error": "ValueError: x", "exit": 70}\n{"event": "recovered"}\n'
    (says,) = unexpected([ended(tmp_path, 70, log=log)])
    assert says == 'worker0 ended by itself with code 70: {"error": "ValueError: x", "exit": 70}'


def test_who_died_on_purpose_must_have_said_so_each_time(tmp_path: Path) -> None:
    dead = ended(tmp_path, 9, 9, log="torn on purpose\ndied: consumer before set\n")
    assert unexpected([dead]) == []
    dead.ends.append(ProcessEnd(9, AT, AT))
    assert len(unexpected([dead])) == 1


def test_the_log_may_be_unavailable_only_while_and_soon_after_the_broker_was_away(tmp_path: Path) -> None:
    away = [(AT - 10.0, AT - 5.0)]
    assert unexpected([ended(tmp_path, 75)], away) == []
    assert unexpected([ended(tmp_path, 75, at=AT + PATIENCE)], away) != []
    assert unexpected([ended(tmp_path, 75, at=AT - 20.0)], away) != []
    assert unexpected([ended(tmp_path, 75)]) != []


def test_the_log_may_be_unavailable_soon_after_a_process_was_frozen_to_that_one_alone(tmp_path: Path) -> None:
    woken = ended(tmp_path, 75)
    woken.wakes.append(AT - 10.0)
    assert unexpected([woken]) == []
    assert len(unexpected([woken, ended(tmp_path, 75)])) == 1


def begin(_module: str, told: dict[str, object], log: Path) -> Running:
    return start_interpreter("tests.torture.test_unexpected_exits", told, log)


@pytest.mark.parametrize("look", [Process.revive, Process.kill, lambda process: process.stop(5.0), Process.start])
def test_a_process_that_ended_by_itself_is_noticed_whoever_looks_first(tmp_path: Path, look: object) -> None:
    process = Process("", {}, tmp_path / "log", begin)
    process.start()
    while not process.dead:
        time.sleep(0.02)
    look(process)  # type: ignore[operator]  # each takes a process
    process.kill()
    assert process.ends[0].code == 70


def test_a_process_that_ended_because_it_was_asked_to_did_not_end_by_itself(tmp_path: Path) -> None:
    process = Process("", {}, tmp_path / "log", begin)
    process.start()
    process.ask_to_end()
    while not process.dead:
        time.sleep(0.02)
    process.stop(5.0)
    assert process.ends == []


def test_a_signal_to_a_process_that_is_gone_is_nothing(tmp_path: Path) -> None:
    process = ForkedProcess("this", {}, tmp_path / "log")
    assert process.wait(60) == 0
    process.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(70)
