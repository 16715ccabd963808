"""The connection to the cluster that the settings name.

There are three ways: a kubeconfig file (and a context in it), the service account of the pod that we run in, or the plain
address of a server that asks for no credentials, such as the simulated cluster. Where the settings name none, what kubectl would
take is taken: the files of `$KUBECONFIG`, then the pod's account, then `~/.kube/config`. This module sends nothing to the server.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.settings.all_settings import ClusterSettings
from streams import yaml_reader
from streams.errors import BadInput
from streams.url_redaction import without_password

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TOKEN = _OWN_NAMESPACE.with_name("token")
_CONNECTIONS = 64
"""Connections that are kept open at most; each watch uses one."""


def connection(cluster: ClusterSettings) -> "ApiClient":
    """A configured connection. Raises BadInput for credentials that are missing or contradict each other."""
    from streams.clients.kube.official_client import client

    # the caller decides what happens after a failure, and urllib3 would try thrice in silence
    configuration = client.Configuration(retries=False, connection_pool_maxsize=_CONNECTIONS)
    if in_pod(cluster):
        _from_pod(configuration, cluster)
    elif (files := _files(cluster)) is not None:
        _from_file(configuration, cluster, files)
    elif cluster.url is not None:
        configuration.host = cluster.url
        # the client takes a proxy from the environment, which does not reach a server on this machine
        configuration.proxy = None
    else:
        raise BadInput(
            "no cluster is named: there is no $KUBECONFIG, no service account of a pod, and no ~/.kube/config. "
            "Set cluster.kubeconfig (and cluster.context), or cluster.url for a server that asks for no credentials"
        )
    return client.ApiClient(configuration)


def in_pod(cluster: ClusterSettings) -> bool:
    """Whether the service account of the pod that we run in is used."""
    named = cluster.kubeconfig is not None or cluster.context is not None or cluster.url is not None
    return cluster.in_cluster or (
        not named and not os.environ.get("KUBECONFIG") and "KUBERNETES_SERVICE_HOST" in os.environ and _TOKEN.is_file()
    )


def _files(cluster: ClusterSettings) -> str | None:
    """The kubeconfig files, as `$KUBECONFIG` lists them; None when there are none, or a plain address is used."""
    if cluster.kubeconfig is not None:
        return str(cluster.kubeconfig.expanduser())
    if cluster.url is not None and cluster.context is None:
        return None
    listed = os.environ.get("KUBECONFIG")
    if listed:
        return listed
    usual = Path("~/.kube/config").expanduser()
    # with a context that file is meant, and where it is not there the error names it
    return str(usual) if cluster.context is not None or usual.is_file() else None


def lease_namespace(cluster: ClusterSettings) -> str | None:
    """The namespace of the consumers' Leases; None means that there are none."""
    if cluster.lease_namespace is not None or not in_pod(cluster) or not _OWN_NAMESPACE.is_file():
        return cluster.lease_namespace
    return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or None


def address(cluster: ClusterSettings) -> str:
    """Where the cluster is, for people."""
    if in_pod(cluster):
        return "the API server of the cluster we run in"
    files = _files(cluster)
    if files is not None:
        return f"context '{cluster.context or _readable_context(files)}' of kubeconfig '{files}'"
    return "(no cluster is named)" if cluster.url is None else without_password(cluster.url)


def context_name(cluster: ClusterSettings) -> str | None:
    """A name for the cluster after its context in the kubeconfig, of an ARN its last part; None without a context."""
    files = None if in_pod(cluster) else _files(cluster)
    context = None if files is None else cluster.context or _current_context(files)
    # a name of a cluster begins with a letter or a digit, and ends up in keys
    name = re.sub(r"[^a-zA-Z0-9._-]+", "-", (context or "").rpartition("/")[2]).lstrip("._-")[:63]
    return name or None


def contexts(cluster: ClusterSettings) -> list[str]:
    """The names of all contexts of the kubeconfig files, each once, in their order. Raises BadInput without a kubeconfig."""
    files = [Path(file) for file in (_files(cluster) or "").split(os.pathsep) if file]
    try:
        trees: list[Any] = [_kubeconfig(file) for file in files if file.is_file()]
        names = [str(context["name"]) for tree in trees for context in tree.get("contexts") or ()]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"kubeconfig '{_files(cluster)}' cannot be read: {error}") from error
    if not names:
        raise BadInput(f"kubeconfig '{_files(cluster) or '~/.kube/config'}' has no contexts: is it there?")
    return list(dict.fromkeys(names))


def _from_pod(configuration: "Configuration", cluster: ClusterSettings) -> None:
    from streams.clients.kube.official_client import config

    if cluster.kubeconfig is not None or cluster.context is not None:
        raise BadInput(
            "cluster.in_cluster is true, and cluster.kubeconfig or cluster.context is set, too: give one way or the other"
        )
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the official client types none of its config
    except config.ConfigException as error:
        raise BadInput(f"cluster.in_cluster is true, but this is no pod with a service account: {error}") from error


def _from_file(configuration: "Configuration", cluster: ClusterSettings, files: str) -> None:
    from yaml import YAMLError

    from streams.clients.kube.official_client import config

    named = f"cluster.kubeconfig '{files}'" if cluster.kubeconfig is not None else f"the kubeconfig '{files}'"
    if not any(Path(file).is_file() for file in files.split(os.pathsep) if file):
        raise BadInput(f"{named} is no file")
    for file in files.split(os.pathsep):
        if file and Path(file).is_file():
            _kubeconfig(Path(file))  # the client reads it without bounds
    try:
        # the files are kubectl's: a token that was renewed is not written into them
        config.load_kube_config(  # type: ignore[no-untyped-call]  # the official client types none of its config
            files, context=cluster.context or _current_context(files), client_configuration=configuration, persist_config=False
        )
    except (config.ConfigException, YAMLError, ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        wish = "" if cluster.context is None else f" with cluster.context '{cluster.context}'"
        raise BadInput(f"{named}{wish} cannot be used: {error}") from error


def _readable_context(files: str) -> str:
    """The current context for people."""
    try:
        return _current_context(files) or "(current)"
    except BadInput:  # who connects says it
        return "(current)"


def _current_context(files: str) -> str | None:
    """The current context of several files."""
    for file in files.split(os.pathsep):
        # kubectl takes the first file that names one; the Python client would take the last one's
        tree = _kubeconfig(Path(file)) if file and Path(file).is_file() else None
        if isinstance(tree, dict) and tree.get("current-context"):
            return str(tree["current-context"])
    return None


def _kubeconfig(file: Path) -> object:
    return yaml_reader.read_file(file, f"the kubeconfig '{file}'")
