"""`ullage backtest`: what these settings would have recommended on recorded usage, as a score card."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given


def backtest(
    file: Annotated[
        Path, Parameter(help="A usage trace (Parquet, CSV, or a folder with usage.parquet), or a log kept by the demo (.jsonl).")
    ],
    *,
    max_oom: Annotated[
        int | None,
        Parameter(
            help="Exit with 3 when there are more OOM kills than this: would-be ones under the recommendation, and recorded ones "
            "that it is not shown to prevent."
        ),
    ] = None,
    output: Annotated[Literal["table", "json"], Parameter(name=("--format", "-o"), help="For people or for programs.")] = "table",
    common: CommonOptions | None = None,
) -> int:
    """Run the stages over recorded usage and score them: slack, would-be OOM kills, changes; beside the recording's own requests.

    No broker needed. Try other settings with `--set vertical.target_cpu_percentile=0.97` and compare.
    """
    from agents.inspect import backtest_command as command

    return command.run(given(common).settings(), file, max_oom=max_oom, as_json=output == "json")
