"""`ullage why-not`: why a pod is left as it is."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import At, CommonOptions, given
from agents.cli.pause import Cluster


def why_not(
    pod: Annotated[str, Parameter(help="A pod: its name, NAMESPACE/NAME, or its uid.")],
    /,
    *,
    at: At = None,
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Say why a pod is left as it is: each guard that holds it back, or why it need not be changed. Reads the log only."""
    from agents.inspect import why_not as command

    command.run(given(common).settings(cluster__name=cluster, log__at=at), pod)
