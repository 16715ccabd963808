"""`ullage checkpoints show` and `export`: what recommenders have learnt about VPAs, in the form of upstream's recommender."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, OutputOption, given

app = App(name="checkpoints", help="Look at the usage history of VPAs, or hand it to a stock VPA recommender.")
VpaOption = Annotated[str, Parameter(help="Only of VPAs whose NAMESPACE/NAME matches this pattern, as `'shop/*'`.")]


@app.command
def show(*, vpa: VpaOption = "*", output: OutputOption = "table", common: CommonOptions | None = None) -> None:
    """Print a line for each container of a VPA: samples, first and last, and the weights behind CPU and memory.

    Read from the newest checkpoints of the workers; nothing is replayed.
    """
    from agents.commands.past import checkpoints

    checkpoints.show(given(common).settings(), vpa, output)


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
