"""What others wrote cannot command the terminal: in data, notes, logs, and the live view."""

import io
import json
import sys
from collections.abc import Callable

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from agents.demo import day_screen
from agents.telemetry import logging_setup
from agents.terminal import output
from agents.terminal.output import visible, visible_line

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202ereversed\x7f\udc80"
SHOWN = "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\u202ereversed\\u007f\\udc80"


def test_what_a_terminal_obeys_is_spelled_out_and_letters_of_all_scripts_stay() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("Größe 容量 تخصيص\t100 %\nnext") == "Größe 容量 تخصيص\t100 %\nnext"
    assert visible_line("one\nullage: all is well") == "one\\nullage: all is well"


@given(st.text(st.characters(codec=None)))
def test_json_means_the_same_when_it_was_made_visible(text: str) -> None:
    said = json.dumps({"text": text}, ensure_ascii=False)
    assert json.loads(visible_line(said)) == {"text": text}
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize(("say", "stream"), [(output.data, "out"), (output.note, "err")])
def test_data_and_notes_are_visible(say: Callable[[str], None], stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"pod {EVIL}")
    assert getattr(capsys.readouterr(), stream) == f"pod {SHOWN}\n"


@pytest.mark.parametrize("colours", [True, False])
def test_log_lines_are_visible_with_and_without_colours(colours: bool) -> None:  # a case
    out = io.StringIO()
    logging_setup.set_up("test", stream=out, colours=colours)
    structlog.get_logger("ullage").warning(f"event {EVIL}", pod=EVIL)
    assert not set("\x07\x9b\u202e\x7f") & set(out.getvalue())
    assert "]0;owned\x07" not in out.getvalue()
    assert "\x1b]" not in out.getvalue()
    assert out.getvalue().count("\\u202e") == 2


def test_the_live_view_shows_names_and_keeps_its_own_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    console = day_screen.console()
    console._force_terminal, console._color_system = True, None
    table = Table("pod")
    table.add_row(Text(EVIL[:-1], style="bold"))
    console.print(table)
    console.print(Text(f"why {EVIL[:-1]}", style="bold"), soft_wrap=True)
    assert "\x1b]" not in out.getvalue()
    assert "\u202e" not in out.getvalue()
    assert out.getvalue().count("\\u001b]0;owned") == 2
