"""`ullage replay`: run the past again and compare it with what was published, or decide a stretch of it by other rules."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agents.cli.incident import Begin, End
from agents.cli.options import CommonOptions, given
from streams.errors import BadInput

if TYPE_CHECKING:
    from agents.terminal.output_table import TextForm


def replay(  # noqa: PLR0913  # the flags of a command
    *,
    file: Annotated[Path | None, Parameter(help="Replay this log file instead of the log of the settings; as --log.")] = None,
    verify: Annotated[bool, Parameter(help="Recompute every turn and compare with what was published, byte for byte.")] = False,
    export: Annotated[Path | None, Parameter(help="Copy the log with its places into this file first.")] = None,
    begin: Begin = None,
    end: End = None,
    policy: Annotated[
        Path | None, Parameter(help="Decide the stretch by these vertical policies, as `ullage policy apply` takes them.")
    ] = None,
    output: Annotated[
        Literal["table", "wide", "json", "yaml"],
        Parameter(
            name=("--output", "-o"), help="For people or for programs: of all decisions, a JSON object a line or a YAML list."
        ),
    ] = "table",
    common: CommonOptions | None = None,
) -> int:
    """Recompute decisions from the log alone. Prints what each turn gives; with `--verify`, what differs from the published.

    With rules in `--set` or `--policy` it decides twice, by the rules that were in force and by these, and prints what would have
    been different: `--set guard.budget=5%`, `--set vertical.margin=0.3`. `--from` and `--to` are the stretch, or it is all.

    Exits with 3 when `--verify` finds a difference, a missing or an extra decision, or a stretch it cannot reach, and with 4 when
    all that it compared is right and other turns were decided by a version of the rules that this program does not have.
    """
    options = given(common) if file is None else replace(given(common), log=file)
    # rules beside --verify are no question of what if: they decide the turns from before the log had any rules
    if begin is not None or end is not None or policy is not None or (not verify and export is None and _has_rules(options)):
        return _what_if(options, begin, end, policy, output)
    from agents.commands.past import replay as command

    # before the replay, which may take minutes
    if output not in {"table", "wide"} and verify:
        raise BadInput(f"--output {output} is for decisions; --verify says what differs in words, and by its exit code")
    return command.run(options.settings(), verify=verify, export=export, form=output)


def _has_rules(options: CommonOptions) -> bool:
    """Whether `--set` names a rule that a stage decides by."""
    # what_if_command is heavy, so it is loaded only where there is a setting to look at
    if not options.set:
        return False
    from agents.commands.compare import what_if_command as command

    return any(map(command.is_rule, options.set))


def _what_if(options: CommonOptions, begin: str | None, end: str | None, policy: Path | None, form: "TextForm") -> int:
    from agents.commands.compare import what_if_command as command

    options = replace(options, set=command.settings_of(options.set))
    return command.run(options.settings(), options.set, command.WhatIfFlags(begin, end, policy, form))
