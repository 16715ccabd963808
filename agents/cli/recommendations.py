"""`ullage recommendations`: a table of what every container requests and should request."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import At, CommonOptions, Output, given
from agents.cli.pause import Cluster


def recommendations(  # noqa: PLR0913  # the flags of a command
    *,
    namespace: Annotated[
        tuple[str, ...],
        Parameter(
            name=("--namespace", "-n"),
            help="Only this namespace, or those that match a pattern such as `'shop-*'`; may be given again.",
            consume_multiple=False,
        ),
    ] = (),
    limit: Annotated[int | None, Parameter(help="Only so many rows, those that save most.")] = None,
    output: Output = "table",
    at: At = None,
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Print requests now and recommended for each container, with bounds, what that saves, the risk, and why.

    The row that saves most comes first; a core counts as much as 8 GiB. `saved` is over all pods, negative where more is needed.
    Reads the log only, and changes nothing.
    """
    from agents.inspect import recommendations_command as command

    command.run(given(common).settings(cluster__name=cluster, log__at=at), namespace, output, limit)
