"""`ullage demo`: a simulated day that a stranger can watch."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import SettingsOptions


def demo(  # noqa: PLR0913  # the flags of a command
    *,
    log: Annotated[
        Literal["kafka", "memory"] | None,
        Parameter(help="The log to run on; without it Kafka if it can be had, else memory."),
    ] = None,
    seconds: Annotated[
        float | None, Parameter(help="How long the day takes; longer on a machine that is too slow for it.")
    ] = None,
    seed: Annotated[int | None, Parameter(help="Same seed, same day.")] = None,
    trace: Annotated[Path | None, Parameter(help="Play this usage trace (Parquet, CSV or a folder) instead of the shop.")] = None,
    forever: Annotated[bool, Parameter(help="Go on after the day, until Ctrl-C.")] = False,
    beside_upstream: Annotated[
        bool,
        Parameter(
            negative="", help="Show the same day under the originals' rules and by the policy adaptive, too; a minute more."
        ),
    ] = False,
    plain: Annotated[bool, Parameter(help="Lines instead of the live view, as where no terminal is.")] = False,
    common: SettingsOptions | None = None,
) -> int:
    """Watch a day in a simulated cluster in about two minutes: usage in, decisions out, on real Kafka, ending by itself.

    Starts a broker, a clock, a cluster of 46 pods, two workers and the consumers; ends with the same day without Ullage beside
    it, the reasons of one decision, and what to try next. Nothing is left running, and the log is kept in .run/demo.
    """
    from agents.demo import demo

    settings = (common or SettingsOptions()).settings(demo__seconds=seconds, cluster__seed=seed)
    flags = demo.DemoFlags(log=log, trace=trace, forever=forever, plain=plain, beside_upstream=beside_upstream)
    return demo.run_with_flags(settings, flags)
