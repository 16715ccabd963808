"""The connection to the cluster that the settings name.

There are three ways: a kubeconfig file (and a context in it), the service account of the pod that we run in, or the plain
address of a server that asks for no credentials, such as the simulated cluster. This module sends nothing to the server. The
connection itself never retries, because the caller decides what happens after a failure.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from agents.settings.tree import ClusterSettings
from streams.clients.url_display import without_password
from streams.errors import BadInput

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_CONNECTIONS = 64
"""Connections that are kept open at most; each watch uses one."""


def connection(cluster: ClusterSettings) -> "ApiClient":
    """A configured connection. Raises BadInput for credentials that are missing or contradict each other."""
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration(retries=False, connection_pool_maxsize=_CONNECTIONS)
    if cluster.in_cluster:
        _from_pod(configuration, cluster)
    elif cluster.kubeconfig is not None or cluster.context is not None:
        _from_file(configuration, cluster)
    else:
        configuration.host = cluster.url
        configuration.proxy = None
    return ApiClient(configuration)


def lease_namespace(cluster: ClusterSettings) -> str | None:
    """The namespace of the consumers' Leases; None means that there are none."""
    if cluster.lease_namespace is not None or not cluster.in_cluster or not _OWN_NAMESPACE.is_file():
        return cluster.lease_namespace
    return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or None


def address(cluster: ClusterSettings) -> str:
    """Where the cluster is, for people."""
    if cluster.in_cluster:
        return "the API server of the cluster we run in"
    if cluster.kubeconfig is not None or cluster.context is not None:
        return f"context '{cluster.context or '(current)'}' of kubeconfig '{cluster.kubeconfig or '(default)'}'"
    return without_password(cluster.url)


def _from_pod(configuration: "Configuration", cluster: ClusterSettings) -> None:
    from kubernetes.config import ConfigException, load_incluster_config

    if cluster.kubeconfig is not None or cluster.context is not None:
        raise BadInput(
            "cluster.in_cluster is true, and cluster.kubeconfig or cluster.context is set, too: give one way or the other"
        )
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the official client types none of its config
    except ConfigException as error:
        raise BadInput(f"cluster.in_cluster is true, but this is no pod with a service account: {error}") from error


def _from_file(configuration: "Configuration", cluster: ClusterSettings) -> None:
    from kubernetes.config import ConfigException, load_kube_config
    from yaml import YAMLError

    path: Path | None = None if cluster.kubeconfig is None else cluster.kubeconfig.expanduser()
    if path is not None and not path.is_file():
        raise BadInput(f"cluster.kubeconfig '{path}' is no file")
    named = "the default kubeconfig" if path is None else f"cluster.kubeconfig '{path}'"
    try:
        load_kube_config(  # type: ignore[no-untyped-call]  # the official client types none of its config
            None if path is None else str(path),
            context=cluster.context,
            client_configuration=configuration,
            persist_config=False,
        )
    except (ConfigException, YAMLError, ValueError, TypeError, KeyError, AttributeError) as error:
        wish = "" if cluster.context is None else f" with cluster.context '{cluster.context}'"
        raise BadInput(f"{named}{wish} cannot be used: {error}") from error
