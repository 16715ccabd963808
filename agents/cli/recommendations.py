"""`ullage recommendations`: print a table of what every container requests and should request."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import At, CommonOptions, LimitOption, OutputOption, given

_Since = Annotated[
    str | None,
    Parameter(help="Over how much of the past, such as `7d`; if not given, a day for replicas, for workloads as the rules say."),
]
_By = Annotated[
    Literal["recommender", "evpa"],
    Parameter(help="For workloads: by the rules of Crane's Resource recommender, or of its EVPA."),
]
_Sizes = Annotated[
    str, Parameter(help="For workloads: round up to the smallest of these sizes that fits, such as `0.25c0.25g,1c2g`.")
]


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
        Literal["requests", "workloads", "replicas", "nodes"],
        Parameter(
            help="What to recommend: requests of containers, by our rules or for workloads by Crane's, "
            "replicas of workloads, or nodes that may go."
        ),
    ] = "requests",
    since: _Since = None,
    by: _By = "recommender",
    sizes: _Sizes = "",
    limit: Annotated[LimitOption, Parameter(help="Only so many rows, those that save most.")] = None,
    output: OutputOption = "table",
    at: At = None,
    common: CommonOptions | None = None,
) -> None:
    """Print requests now and recommended for each container, with bounds, what that saves, the risk, and why.

    The row that saves most comes first; a core counts as much as 8 GiB. Requests now are those of a workload's newest pod, and
    `saved` is over all pods as if each requested them, negative where more is needed.
    Reads the log only, and changes nothing. Replicas are Crane's: so many that a pod uses half of its requests at the 95th
    percentile of all pods' usage, forecasts among it. For workloads containers get the 99th percentile of what they used in a
    week, 15 % more, and what an OOM kill asks for; by the rules of an EVPA of a day of CPU and two of memory. A node may go that
    has no pods but those of DaemonSets.
    """
    from agents.settings import event_times
    from streams.errors import BadInput

    # refused, because a flag without an effect would look like an answer
    if of != "requests" and limit is not None:
        raise BadInput(f"--limit is for those requests that save most; --of {of} prints all rows")
    if of == "nodes" and namespace:
        raise BadInput("--namespace is for workloads; a node is in none")
    if of != "workloads" and (by != "recommender" or sizes):
        raise BadInput("--by and --sizes are for --of workloads")
    settings = given(common).settings(log__at=at)
    if of == "requests":
        from agents.commands.recommend import recommendations_command

        recommendations_command.run(settings, namespace, output, limit)
    elif of == "workloads":
        from agents.commands.recommend import crane_resource_recommendations

        past = None if since is None else event_times.duration(since, "--since")
        crane_resource_recommendations.run(settings, namespace, output, crane_resource_recommendations.options(by, past, sizes))
    else:
        from agents.commands.recommend import replica_and_node_recommendations

        replica_and_node_recommendations.run(settings, of, namespace, output, event_times.duration(since or "1d", "--since"))
