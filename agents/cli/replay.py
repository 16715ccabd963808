"""`ullage replay`: run the past again, from Kafka or from a file, and with `--verify` compare it with what was published."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given


def replay(
    *,
    file: Annotated[Path | None, Parameter(help="Replay this log file instead of the log of the settings.")] = None,
    verify: Annotated[bool, Parameter(help="Recompute every turn and compare with what was published, byte for byte.")] = False,
    export: Annotated[Path | None, Parameter(help="Copy the log with its places into this file first.")] = None,
    common: CommonOptions | None = None,
) -> int:
    """Recompute decisions from the log alone. Prints what each turn gives; with `--verify`, what differs from the published.

    Exits with 3 when `--verify` finds a difference, a missing or an extra decision, or a stretch it cannot reach, and with 4 when
    all that it compared is right and other turns were decided by a version of the rules that this program does not have.
    """
    from agents.inspect import replay as command

    flags = {} if file is None else {"log__kind": "file", "log__path": file}
    return command.run(given(common).settings(**flags), verify=verify, export=export)
