"""`ullage recommendations`: a table of what every container requests and should request."""

from typing import Annotated, Literal

from cyclopts import Parameter, validators

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
    of: Annotated[
        Literal["requests", "replicas", "nodes"],
        Parameter(help="What to recommend: requests of containers, replicas of workloads, or nodes that may go."),
    ] = "requests",
    since: Annotated[str, Parameter(help="For replicas: over how much of the past, such as `7d`.")] = "1d",
    limit: Annotated[
        int | None, Parameter(help="Only so many rows, those that save most.", validator=validators.Number(gte=1))
    ] = None,
    output: Output = "table",
    at: At = None,
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Print requests now and recommended for each container, with bounds, what that saves, the risk, and why.

    The row that saves most comes first; a core counts as much as 8 GiB. `saved` is over all pods, negative where more is needed.
    Reads the log only, and changes nothing. Replicas are Crane's: so many that a pod uses half of its requests at the 95th
    percentile of all pods' usage, forecasts among it. A node may go that has no pods but those of DaemonSets.
    """
    from agents.settings import event_times
    from streams.errors import BadInput

    if of != "requests" and limit is not None:
        raise BadInput(f"--limit is for those requests that save most; --of {of} prints all rows")
    if of == "nodes" and namespace:
        raise BadInput("--namespace is for workloads; a node is in none")
    settings = given(common).settings(cluster__name=cluster, log__at=at)
    if of == "requests":
        from agents.inspect import recommendations_command

        recommendations_command.run(settings, namespace, output, limit)
    else:
        from agents.inspect import replica_and_node_recommendations

        replica_and_node_recommendations.run(settings, of, namespace, output, event_times.duration(since, "--since"))
