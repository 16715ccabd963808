"""`ullage backtest` and `ullage diff`: score side by side what policies would have recommended on recorded usage."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import CommonOptions, PrometheusOptions, given

_RECORDING = "A usage trace (Parquet, CSV, or a folder with usage.parquet), a log file (.jsonl) or an incident file (.parquet)."
RecordingArgument = Annotated[Path, Parameter(help=_RECORDING)]
ScoreOutputOption = Annotated[
    Literal["table", "wide", "json", "yaml", "csv", "parquet", "md", "html", "svg"],
    Parameter(
        name=("--output", "-o", "--format", "-f"),
        help="For people (`table`, `md`, `html`) or for programs; `svg` is the picture of --frontier.",
    ),
]
PricesOption = Annotated[
    Path | None, Parameter(help="A CSV file with `cpu,PRICE` a core-hour, `memory,PRICE` a GiB-hour and `currency,EUR`.")
]
FrontierOption = Annotated[
    str | None,
    Parameter(
        help="Draw what is requested against what is risked, for several values of a setting of `--policy` (`adaptive`, if "
        "none is named), beside upstream with several margins: `vertical.risk_cpu=0.005,0.02,0.08`."
    ),
]
KeepOption = Annotated[
    Path | None, Parameter(help="Keep what --prometheus-url gave as this trace (.parquet), to be read again as FILE.")
]
RowsOption = Annotated[
    Literal["workload", "sample"],
    Parameter(
        name="--rows",
        help="What a row of `-o parquet` is: a policy and workload, or every sample of every policy with the requests in force, "
        "from which all figures can be computed again.",
    ),
]
Jobs = Annotated[
    int | None,
    Parameter(
        name=("--jobs", "-j"),
        help="Score a usage trace in so many processes; 1: in this one. Without it: as many as there are cores, fewer for a "
        "small trace. The result is the same. A log, and a policy written as code, are scored in one process.",
    ),
]
FileOutputOption = Annotated[Path | None, Parameter(name="--fileoutput", help="Write into this file instead of stdout.")]


def backtest(  # noqa: PLR0913  # the flags of a command
    file: Annotated[Path | None, Parameter(help=f"{_RECORDING} Without it, --prometheus-url says where usage is stored.")] = None,
    *,
    policy: Annotated[
        tuple[str, ...],
        Parameter(
            help="Compare this policy with the baseline, the recording's own requests and an hourly oracle; may be given again. "
            "`default`, `upstream`, a settings file (.yaml), or settings such as `p97:vertical.target_cpu_percentile=0.97`. With "
            "`@in-place` or `@recreate` after it, pods are changed in that way.",
            consume_multiple=False,
        ),
    ] = (),
    baseline: Annotated[str, Parameter(help="What `--policy` is compared with, named in the same ways.")] = "upstream",
    max_oom: Annotated[
        int | None,
        Parameter(
            help="Exit with 3 when there are more OOM kills than this: would-be ones under the recommendation, and recorded ones "
            "that it is not shown to prevent."
        ),
    ] = None,
    max_regression: Annotated[
        str | None, Parameter(help="Exit with 3 when a policy costs or kills more than the baseline by more than this, as `5%`.")
    ] = None,
    frontier: FrontierOption = None,
    prices: PricesOption = None,
    jobs: Jobs = None,
    output: ScoreOutputOption = "table",
    rows: RowsOption = "workload",
    fileoutput: FileOutputOption = None,
    stored: PrometheusOptions | None = None,
    keep: KeepOption = None,
    common: CommonOptions | None = None,
) -> int:
    """Run the stages over recorded usage and score them: slack, would-be OOM kills, changes; beside the recording's own requests.

    No broker needed. Try other settings with `--set vertical.target_cpu_percentile=0.97` and compare, or give several policies.
    """
    from agents.commands.compare import backtest_command

    options, server = given(common), stored or PrometheusOptions()
    loaded = options.load(**server.overrides())
    # the plain score card needs no comparison, and so neither its bootstrap nor a second policy's run
    single = not policy and frontier is None and max_regression is None and fileoutput is None and prices is None
    with backtest_command.recording(loaded, file, stored=server.url is not None, until=server.until, keep=keep) as recorded:
        if single and (output == "table" or output == "wide" or output == "json" or output == "yaml"):  # noqa: PLR1714  # mypy follows no `in`
            return backtest_command.run(loaded.settings, recorded, max_oom=max_oom, form=output, jobs=jobs)
        from agents.commands.compare import comparison_command as command

        share = None if max_regression is None else command.regression_of(max_regression)
        flags = command.ComparisonFlags(options.set, output, fileoutput, prices, baseline, jobs, rows)
        if frontier is not None:
            return command.draw_frontier(loaded.settings, recorded, policy[0] if policy else "adaptive", frontier, flags)
        return command.compare(loaded.settings, recorded, policy or ("default",), flags, command.Gates(max_oom, share))


def diff(  # noqa: PLR0913  # the flags of a command
    one: Annotated[str, Parameter(help="A policy, named as for `backtest --policy`.")],
    two: Annotated[str, Parameter(help="Another one.")],
    /,
    *,
    file: Annotated[RecordingArgument, Parameter(name=("--data",))],
    top: Annotated[int, Parameter(help="How many workloads.")] = 20,
    prices: PricesOption = None,
    jobs: Jobs = None,
    output: ScoreOutputOption = "table",
    fileoutput: FileOutputOption = None,
    common: CommonOptions | None = None,
) -> int:
    """Print the workloads that differ most between two policies on recorded usage, in risk and in cost."""
    from agents.commands.compare import comparison_command as command

    flags = command.ComparisonFlags(given(common).set, output, fileoutput, prices, jobs=jobs)
    return command.diff(given(common).settings(), file, (one, two), top, flags)
