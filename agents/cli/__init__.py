"""The command line: `ullage COMMAND`. Data goes to stdout, everything else to stderr.

Exit codes: 0 fine; 1 it did not work, as when Kafka is away; 2 wrong usage (a flag, file or setting that makes no sense); 3 a
gate was crossed (`backtest --max-oom`, `replay --verify`); 4 `replay --verify` could not compare all; 130 and 143 after Ctrl-C
and SIGTERM, and 0 for what runs until it is stopped. Errors of ours are one sentence, never a traceback; a traceback is a bug
in Ullage.
"""

import errno
import os
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError

from agents.cli.program import app
from agents.processes import signals
from agents.processes.signals import Stop
from agents.terminal.output import note
from streams.errors import BadInput, UllageError

# in these two cases another folder helps; on a full disk it hardly does
_NO_RIGHT = {errno.EROFS, errno.EACCES}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, *_NO_RIGHT}
FINE, FAILED, USAGE, GATE, INTERRUPTED = 0, 1, 2, 3, 130


def main() -> None:
    """The console script."""
    # before anything else opens a file, which would get the number of the stream that is missing
    _open_closed_streams()
    signals.die_with_parent()
    sys.exit(run(sys.argv[1:]))


def run(tokens: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        # here, where a pipe or a disk that takes no more is still told in a sentence of ours
        sys.stdout.flush()
    # `ullage tap ... | head` ends so: the reader has what it wanted
    except BrokenPipeError:
        _forget_output()
        return FINE
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _forget_output()
        where = f" in '{error.filename}'" if error.filename else ""
        hint = "; go to a folder that you may write" if error.errno in _NO_RIGHT else ""
        return _fail(f"what was to be written could not be{where}: {error.strerror}{hint}", FAILED)
    except (CycloptsError, UllageError, KeyboardInterrupt, Stop) as error:
        return _ended(error)
    # most commands return nothing
    return code if isinstance(code, int) else FINE


def _open_closed_streams() -> None:
    """Put the null device where `>&-` or `2>&-` closed a stream."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # it lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # it lives as long as the process


def _forget_output() -> None:
    """Point stdout at the null device."""
    # Python flushes stdout once more at exit, and would print a second error there
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(error: BaseException) -> int:
    match error:
        case CycloptsError():
            return _fail(f"{error}\nTry: {' '.join(('ullage', *(error.command_chain or ())))} --help", USAGE)
        # before UllageError, which it is as well
        case BadInput():
            return _fail(str(error), USAGE)
        case UllageError():
            return _fail(str(error), FAILED)
        case Stop():
            return error.code
        # a Ctrl-C outside of what turns signals into Stop
        case _:
            return INTERRUPTED


def _fail(sentence: str, code: int) -> int:
    note(f"ullage: {sentence}")
    return code
