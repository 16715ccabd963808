"""A progress line says how far a command is on a terminal, and nothing elsewhere."""

from io import StringIO

from agents.terminal.output import ProgressLine


class Terminal(StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def line_after(out: StringIO) -> str:
    times = iter([0.0, 0.1, 30.0, 30.2])
    line = ProgressLine(400, "samples", out, lambda: next(times))
    line.show(1)  # too early to say anything
    line.show(100)
    line.show(101)  # said only just now
    line.end()
    return out.getvalue()


def test_a_terminal_sees_how_far_it_is_and_how_long_it_takes_yet() -> None:
    # A quarter in 30 s: three quarters take 90 s more.
    assert line_after(Terminal()) == "\r\x1b[K100 of 400 samples (25%), about 1 min 30 s left\r\x1b[K"


def test_who_reads_a_file_or_a_pipe_sees_nothing() -> None:
    assert line_after(StringIO()) == ""
