"""The screen of `ullage up`: what stood in the terminal before stays, and the last table is left at the end."""

import pytest

from agents import up


def test_tables_have_a_screen_of_their_own_and_the_last_one_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with up.shown(live=True) as show:
        show(["one"])
        show(["two"])
    said = capsys.readouterr().out
    assert said == "\x1b[?1049h\x1b[H\x1b[2Jone\n\x1b[H\x1b[2Jtwo\n\x1b[?1049ltwo\n"


def test_nothing_of_the_terminal_is_touched_where_the_output_goes_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with up.shown(live=False) as show:
        show(["one"])
        show(["two"])
    assert capsys.readouterr().out == "one\ntwo\n"
