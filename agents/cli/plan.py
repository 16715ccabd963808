"""`ullage plan`: what would be done to pods now."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import At, CommonOptions, given
from agents.cli.pause import Cluster


def plan(
    *,
    output: Annotated[
        Literal["table", "json", "yaml"], Parameter(name=("--output", "-o"), help="For people or for programs.")
    ] = "table",
    at: At = None,
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Say what would be done now: pods resized in place, restarted, and left alone, and why. Reads the log only, in any mode."""
    from agents.inspect import plan as command

    command.run(given(common).settings(cluster__name=cluster, log__at=at), form=output)
