import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from agents.telemetry import logging_setup
from streams.errors import GiveUp

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def _lines(out: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    for line in lines:
        assert datetime.fromisoformat(line.pop("timestamp")).tzinfo is not None
    return lines


def test_a_process_tells_its_settings_once_in_one_line_of_json() -> None:
    out = io.StringIO()
    log = logging_setup.set_up("worker", stream=out)
    logging_setup.started(log, {"topics.partitions": 4, "worker.data": AT})
    assert _lines(out) == [
        {
            "event": "process started",
            "level": "info",
            "component": "worker",
            "settings": {"topics.partitions": 4, "worker.data": "2026-01-01 00:00:00+00:00"},
        }
    ]


def test_our_own_error_is_a_sentence_and_a_strange_one_brings_its_traceback() -> None:
    out = io.StringIO()
    log = logging_setup.set_up("source", stream=out)
    logging_setup.failed(log, doing="listing pods", error=GiveUp(doing="listing", to="pods", answer="403"))
    try:
        int("four")
    except ValueError as error:
        logging_setup.failed(log, doing="counting", error=error)
    ours, strange = _lines(out)
    assert ours["error"] == "GiveUp: listing 'pods' did not work: 403"
    assert "exception" not in ours
    assert strange["exception"].endswith("ValueError: invalid literal for int() with base 10: 'four'")


def test_the_end_is_an_error_when_the_code_says_so() -> None:
    out = io.StringIO()
    log = logging_setup.set_up("worker", stream=out)
    logging_setup.ended(log, code=0, reason="asked to")
    logging_setup.ended(log, code=1, reason="the state broke an invariant")
    assert [(line["level"], line["code"]) for line in _lines(out)] == [("info", 0), ("error", 1)]


def test_warnings_of_libraries_take_the_same_form_and_their_chatter_is_left_out() -> None:
    out = io.StringIO()
    logging_setup.set_up("worker", stream=out)
    logging.getLogger("aiokafka").info("joined")
    logging.getLogger("aiokafka").warning("topic %s is not there", "t")
    logging.getLogger("kafka.admin._groups").warning("Unable to decode member_metadata for %s", "ullage")
    logging.getLogger("kafka.net.selector").warning("Task %s ran for 0.1s. It is blocking the event loop", "t")
    assert _lines(out) == [{"event": "topic t is not there", "level": "warning", "logger": "aiokafka", "component": "worker"}]


def test_lines_of_our_own_modules_come_out_with_the_component() -> None:
    out = io.StringIO()
    logging_setup.set_up("consumer", stream=out)
    structlog.get_logger("streams.consumers.executing.executor").info("finished", action="evict")
    assert _lines(out) == [{"event": "finished", "level": "info", "component": "consumer", "action": "evict"}]


@pytest.mark.parametrize(("wish", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_text_instead_of_json_coloured_unless_somebody_objects(
    wish: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", wish)
    out = io.StringIO()
    logging_setup.ended(logging_setup.set_up("worker", stream=out, colours=True), code=0, reason="asked to")
    assert "process ended" in out.getvalue()
    assert not out.getvalue().startswith("{")
    assert ("\x1b[" in out.getvalue()) is coloured


EVIL = "a\n2026-01-01T00:00:00Z [info     ] forged\r\x1b[2J\u202e"


def _coloured(out: io.StringIO) -> list[str]:
    """The lines, without the colours that are ours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


def test_what_others_wrote_stays_on_its_line_and_commands_no_terminal() -> None:
    for write in (
        lambda log: log.info("event", value=EVIL),
        lambda log: log.warning(EVIL),
        lambda log: log.info("event", **{EVIL: 1}),
        lambda log: log.info("event", values=[EVIL], named={EVIL: EVIL}, strange=Strange()),
        lambda _log: logging.getLogger(f"kafka.{EVIL}").warning("of a library: %s", EVIL),
    ):
        out = io.StringIO()
        write(logging_setup.set_up("worker", stream=out, colours=True))
        (line,) = _coloured(out)
        assert "forged" in line
        assert not {"\x1b", "\r", "\u202e"} & set(line)


class Strange:
    """Something with a text of its own."""

    def __repr__(self) -> str:
        return EVIL


def fail(text: str) -> None:
    raise ValueError(text)


def test_a_traceback_keeps_its_lines_and_no_line_of_it_looks_like_one_of_ours() -> None:
    out = io.StringIO()
    log = logging_setup.set_up("worker", stream=out, colours=True)
    try:
        fail(EVIL)
    except ValueError as error:
        logging_setup.failed(log, doing="counting", error=error)
    first, *others = _coloured(out)
    assert "failure" in first
    assert any("in test_a_traceback" in line for line in others)
    assert all(line.startswith(("    ", "Traceback")) for line in others)
    assert not {"\x1b", "\r", "\u202e"} & set("".join([first, *others]))


@pytest.mark.parametrize("colours", [False, True])
def test_no_line_shows_the_password_of_a_url(*, colours: bool) -> None:
    out = io.StringIO()
    log = logging_setup.set_up("source", stream=out, colours=colours)
    logging.getLogger("urllib3").warning("retrying %s", "https://u:pass/hunter2@h/x")
    log.warning("asking 'https://u:hunter2@h' failed", url="https://h/?token=hunter2")
    try:
        fail("no route to https://u:a hunter2@h")
    except ValueError as error:
        logging_setup.failed(log, doing="asking", error=error)
    assert "no route to https://" in out.getvalue()
    assert "hunter2" not in out.getvalue()
