"""`ullage checkpoints`: what the tables of workers hold, and what recommenders have learnt about VPAs, in upstream's form."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, OutputOption, given

app = App(
    name="checkpoints",
    help="Look at what workers remember: their tables, the usage history of VPAs; hand it to a stock VPA recommender.",
)
VpaOption = Annotated[str, Parameter(help="Only of VPAs whose NAMESPACE/NAME matches this pattern, as `'shop/*'`.")]


@app.command
def show(*, vpa: VpaOption = "*", output: OutputOption = "table", common: CommonOptions | None = None) -> None:
    """Print a line for each container of a VPA: samples, first and last, and the weights behind CPU and memory.

    Read from the newest checkpoints of the workers; nothing is replayed.
    """
    from agents.commands.past import checkpoints

    checkpoints.show(given(common).settings(), vpa, output)


@app.command
def tables(
    *,
    partition: Annotated[int | None, Parameter(help="Only of this partition.")] = None,
    table: Annotated[str, Parameter(help="The entries of this table instead of a line for each table.")] = "",
    key: Annotated[str, Parameter(help="Only entries whose key contains this, as a workload's name.")] = "",
    output: OutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print what the tables of the workers hold: a line for each stage, partition and table, or the entries of one table.

    Read from the newest checkpoints, from which a worker would go on. What a table keeps as numbers is shown by its size alone.
    """
    from agents.commands.past import checkpoints

    checkpoints.show_tables(given(common).settings(), output, partition=partition, table=table, key=key)


@app.command
def export(
    *,
    to: Annotated[
        Path | None, Parameter(help="Write a list of objects to this file (.json, else YAML), and none to the cluster.")
    ] = None,
    vpa: VpaOption = "*",
    common: CommonOptions | None = None,
) -> int:
    """Write VerticalPodAutoscalerCheckpoint objects, one for each container of a VPA; objects of the same name are replaced.

    For moving back to a stock VPA recommender: stop the workers, export, start the recommender. It then knows what Ullage knows.
    Needs the right to get, create and update verticalpodautoscalercheckpoints.
    """
    from agents.commands.past import checkpoints

    return checkpoints.export(given(common).settings(), to, vpa)
