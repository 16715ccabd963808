"""`ullage demo`, `up` and `simulate`: what a stranger can watch without installing anything."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import CommonOptions, SettingsOptions, TextOutputOption, given


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
    day, workers = demo.day_of(settings, trace), settings.demo.workers
    return demo.run(demo.DemoOptions(day, log, trace, forever, plain, workers, beside_upstream))


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
    from agents.demo import simulate_command

    simulate_command.run(scenario, keep=keep, given=setting, form=output)


def up(
    *,
    kubeconfig: Annotated[Path | None, Parameter(help="The kubeconfig file; without it what kubectl would take.")] = None,
    context: Annotated[str | None, Parameter(help="The context in it; without it the current one.")] = None,
    plain: Annotated[bool, Parameter(help="Print the tables one after the other, as where no terminal is.")] = False,
    common: CommonOptions | None = None,
) -> None:
    """Watch a cluster and show what its containers request and should request. Nothing in the cluster is changed.

    Starts a broker (or takes the one of `--brokers`), the topics, a clock, both sources and a worker, shows the table and
    what every part does, and ends all of it with Ctrl-C. The logs, and the broker's data, are in .run/up. Needs the rights of
    the two sources: to list and watch pods, workloads, nodes and VPAs, and to read the metrics API. Unless `cluster.name` is set,
    the cluster is called after its context.
    """
    from agents import up as up_command

    up_command.run(given(common).load(cluster__kubeconfig=kubeconfig, cluster__context=context), plain=plain)
