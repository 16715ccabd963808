"""The connection to a cluster, from settings."""

from pathlib import Path

import pytest

from agents.settings import cluster_factory
from agents.settings.tree import ClusterSettings
from streams.errors import BadInput

CONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: here, user: me}}
clusters:
- {name: here, cluster: {server: "https://127.0.0.1:7443", insecure-skip-tls-verify: true}}
users:
- {name: me, user: {token: secret}}
"""


def _file(tmp_path: Path, text: str = CONFIG) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    return path


def test_a_plain_address_needs_no_credentials_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    made = cluster_factory.connection(ClusterSettings(url="http://127.0.0.1:5")).configuration
    assert (made.host, made.proxy, made.retries) == ("http://127.0.0.1:5", None, False)


def test_a_kubeconfig_gives_address_and_token(tmp_path: Path) -> None:
    made = cluster_factory.connection(ClusterSettings(kubeconfig=_file(tmp_path), context="one")).configuration
    assert made.host == "https://127.0.0.1:7443"
    assert made.retries is False
    assert made.get_api_key_with_prefix("BearerToken") == "Bearer secret"


def test_a_kubeconfig_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match=r"cluster\.kubeconfig '/no/such/file' is no file"):
        cluster_factory.connection(ClusterSettings(kubeconfig=Path("/no/such/file")))


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"kubeconfig' with cluster\.context 'two' cannot be used"):
        cluster_factory.connection(ClusterSettings(kubeconfig=_file(tmp_path), context="two"))


def test_a_kubeconfig_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="kubeconfig' cannot be used"):
        cluster_factory.connection(ClusterSettings(kubeconfig=_file(tmp_path, "a: [")))


def test_in_cluster_outside_of_a_pod_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadInput, match="this is no pod with a service account"):
        cluster_factory.connection(ClusterSettings(in_cluster=True))


def test_two_ways_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one way or the other"):
        cluster_factory.connection(ClusterSettings(in_cluster=True, kubeconfig=_file(tmp_path)))
