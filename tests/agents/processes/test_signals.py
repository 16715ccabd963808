"""A signal ends a command that runs until it is stopped, wherever in a lock it comes."""

import os
import signal
import threading
import time
from contextlib import nullcontext

import pytest

from agents.processes import signals
from agents.processes.signals import Stop, until_stopped


def test_a_signal_ends_the_block_and_the_handlers_are_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with until_stopped():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10.0)
        pytest.fail("the signal did not end it")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_before_the_block_begins_is_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hit(nullcontext[None]):
        def __enter__(self) -> None:
            raise Stop(signal.SIGTERM)

    monkeypatch.setattr(signals, "stoppable", Hit)
    with pytest.raises(Stop), until_stopped():
        pytest.fail("the block began")


def test_a_signal_that_a_finalizer_swallows_comes_again() -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10.0)  # the signal comes here, and Python only reports what a finalizer raises

    with until_stopped():
        kept = [Finalized()]
        kept.clear()
        threading.Event().wait(60.0)
        pytest.fail("the signal did not end it")


def test_a_lock_that_fails_on_top_of_the_signal_is_the_signal() -> None:
    lock = threading.Lock()
    with until_stopped():
        try:
            raise Stop(signal.SIGTERM)
        finally:
            lock.release()  # as `Condition.__exit__` does when the signal came between its locks


def test_any_other_failure_stays_one() -> None:
    with pytest.raises(RuntimeError, match="release unlocked lock"), until_stopped():
        threading.Lock().release()
