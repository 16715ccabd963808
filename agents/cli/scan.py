"""`ullage scan`: recommend from Prometheus, the metrics API or a file, without installing anything."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from agents.cli.options import CommonOptions, LimitOption, PrometheusOptions, given
from streams.errors import BadInput

if TYPE_CHECKING:
    from agents.settings.all_settings import Settings

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
