"""`ullage recommendations` and `scan`: what every container requests and should request, from the log or without any."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from agents.cli.options import At, CommonOptions, LimitOption, OutputOption, PrometheusOptions, given
from streams.errors import BadInput

if TYPE_CHECKING:
    from agents.settings.all_settings import Settings

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


_GROUP = Group("Where from", sort_key=1)
_CONTEXT = Parameter(name=("--context", "-c"), help="A context of the kubeconfig; may be given again.", consume_multiple=False)


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, slots=True)
class ScannedCluster:
    """What is scanned, by flag."""

    file: Annotated[Path | None, Parameter(name=("--from-file", "--file"), help="A usage trace: Parquet, CSV or a folder.")] = (
        None
    )
    context: Annotated[tuple[str, ...], _CONTEXT] = ()
    all_clusters: Annotated[bool, Parameter(negative=(), help="All contexts of the kubeconfig.")] = False
    kubeconfig: Annotated[Path | None, Parameter(help="The kubeconfig file, if not the usual one.")] = None
    samples: Annotated[int, Parameter(help="How often to ask the metrics API, `usage.interval_seconds` apart.")] = 1


def scan(  # noqa: PLR0913  # the flags of a command, krr's among them
    *,
    where: ScannedCluster | None = None,
    stored: PrometheusOptions | None = None,
    namespace: Annotated[
        tuple[str, ...],
        Parameter(name=("--namespace", "-n"), help="Only this namespace or pattern, as `'shop-*'`.", consume_multiple=False),
    ] = (),
    selector: Annotated[str, Parameter(name=("--selector", "-s"), help="Only pods with labels, as `app=cart`.")] = "",
    output: Annotated[
        Literal["table", "wide", "json", "yaml", "csv", "csv-raw", "markdown", "html"],
        Parameter(name=("--formatter", "-f", "--output", "-o"), help="csv-raw, json and yaml have cores and bytes."),
    ] = "table",
    fileoutput: Annotated[Path | None, Parameter(name="--fileoutput", help="Write into this file instead of stdout.")] = None,
    limit: LimitOption = None,
    sort: Annotated[Literal["saved", "namespace", "risk"], Parameter(help="What comes first.")] = "saved",
    fail_on: Annotated[
        Literal["high", "medium"] | None, Parameter(help="Exit with 3 when a container is at this risk or a higher one.")
    ] = None,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), help="No summary.")] = False,
    common: CommonOptions | None = None,
) -> int:
    """Print what every container requests and should request, by the same rules as the agents. Installs and changes nothing.

    Pods come from the cluster's API server when a kubeconfig or context is named, else from kube-state-metrics in Prometheus.
    """
    from agents.commands.recommend import scan_command as command

    cluster, stored = where or ScannedCluster(), stored or PrometheusOptions()
    if cluster.file is not None and stored.url is not None:
        raise BadInput("give either --from-file or --prometheus-url, and not both")
    shown = command.ScanFlags(namespace, selector, output, fileoutput, limit, sort, fail_on, quiet)
    source = command.ScanSource(cluster.file, stored.url is not None, cluster.samples, stored.until)
    return command.run(_clusters(cluster, stored, given(common)), source, shown)


def _clusters(cluster: ScannedCluster, stored: PrometheusOptions, common: CommonOptions) -> "list[Settings]":
    """The settings of each cluster to scan."""
    from agents.commands.recommend.scan_command import of_context
    from agents.settings import cluster_factory

    loaded = common.load(cluster__kubeconfig=cluster.kubeconfig, **stored.overrides())
    if cluster.all_clusters and cluster.context:
        raise BadInput("give either --all-clusters or --context, and not both")
    names = cluster_factory.contexts(loaded.settings.cluster) if cluster.all_clusters else cluster.context
    # without a context one cluster: that of the settings
    return [of_context(loaded, name) for name in names or ("",)]
