"""`ullage simulate`: play a scenario from a file in virtual time."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import TextOutputOption


def simulate(
    scenario: Annotated[Path, Parameter(help="A YAML file: nodes, workloads with their load, a policy, settings.")],
    /,
    *,
    keep: Annotated[Path | None, Parameter(help="Keep the log and its settings in this folder.")] = None,
    setting: Annotated[
        tuple[str, ...], Parameter(name="--set", help="A setting of a stage instead of the file's.", consume_multiple=False)
    ] = (),
    output: TextOutputOption = "table",
) -> None:
    """Play a scenario against the whole pipeline and its consumers: pods, OOM kills, restarts, resizes, evictions. No broker.

    The same file gives the same log. With `--keep` every command that looks back reads it, by `--log FOLDER/log.jsonl`.
    """
    from agents.demo import simulate_command as command

    command.run(scenario, command.SimulateFlags(keep, output, setting))
