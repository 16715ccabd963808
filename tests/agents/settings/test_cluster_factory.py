"""The connection to a cluster, from settings."""

from pathlib import Path

import pytest

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
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
    with pytest.raises(BadInput, match="kubeconfig' is no YAML"):
        cluster_factory.connection(ClusterSettings(kubeconfig=_file(tmp_path, "a: [")))


def test_in_cluster_outside_of_a_pod_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadInput, match="this is no pod with a service account"):
        cluster_factory.connection(ClusterSettings(in_cluster=True))


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_without_a_word_the_kubeconfig_of_kubectl_is_taken(home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text(CONFIG)
    assert cluster_factory.connection(ClusterSettings()).configuration.host == "https://127.0.0.1:7443"
    assert cluster_factory.address(ClusterSettings()) == f"context 'one' of kubeconfig '{home}/.kube/config'"


def test_a_kubeconfig_that_cannot_be_read_has_an_address_all_the_same(home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text("a: [")
    assert cluster_factory.address(ClusterSettings()) == f"context '(current)' of kubeconfig '{home}/.kube/config'"


def test_the_variable_kubeconfig_counts_before_the_file_at_home_and_may_list_several(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text(CONFIG.replace("7443", "1"))
    first, second = _file(home), home / "second"
    second.write_text(CONFIG.replace("one", "two").replace("here", "there").replace(": me", ": you").replace("7443", "7444"))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert cluster_factory.connection(ClusterSettings()).configuration.host == "https://127.0.0.1:7443"
    assert cluster_factory.connection(ClusterSettings(context="two")).configuration.host == "https://127.0.0.1:7444"


def test_a_plain_address_counts_before_the_files_of_kubectl(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(_file(home)))
    assert cluster_factory.connection(ClusterSettings(url="http://127.0.0.1:5")).configuration.host == "http://127.0.0.1:5"


def test_the_account_of_the_pod_counts_before_the_file_at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text(CONFIG)
    (home / "token").write_text("t")
    monkeypatch.setattr(cluster_factory, "_TOKEN", home / "token")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert cluster_factory.in_pod(ClusterSettings())
    assert not cluster_factory.in_pod(ClusterSettings(kubeconfig=Path("x")))


def test_no_cluster_at_all_is_said_with_what_was_tried(home: Path) -> None:
    del home
    with pytest.raises(BadInput, match=r"no cluster is named: there is no \$KUBECONFIG, no service account of a pod, and no"):
        cluster_factory.connection(ClusterSettings())


def test_two_ways_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one way or the other"):
        cluster_factory.connection(ClusterSettings(in_cluster=True, kubeconfig=_file(tmp_path)))


def test_all_contexts_of_several_kubeconfigs_are_known_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.write_text(CONFIG.replace("name: one", "name: two") + "- {name: more, user: {}}\n")
    monkeypatch.setenv("KUBECONFIG", f"{_file(tmp_path)}:{tmp_path}/none:{other}:{_file(tmp_path)}")
    assert cluster_factory.contexts(ClusterSettings()) == ["one", "two"]


@pytest.mark.parametrize("text", ["", "contexts: 5", "contexts: [{context: {}}]", "[1]", "{", "contexts: []"])
def test_a_kubeconfig_without_contexts_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"kubeconfig '.*kubeconfig' (cannot be read|is no YAML|has no contexts)"):
        cluster_factory.contexts(ClusterSettings(kubeconfig=_file(tmp_path, text)))


@pytest.mark.parametrize(
    ("context", "name"),
    [
        ("kind-trial", "kind-trial"),
        ("arn:aws:eks:eu-west-1:123456789012:cluster/prod", "prod"),
        ("gke_my-project_europe-west1_shop", "gke_my-project_europe-west1_shop"),
        ("admin@shop", "admin-shop"),
        ("-.x" + 80 * "y", "x" + 62 * "y"),
        ("/", None),
    ],
)
def test_a_cluster_may_be_called_after_its_context(context: str, name: str | None, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(CONFIG.replace("current-context: one", f"current-context: '{context}'"))
    assert cluster_factory.context_name(ClusterSettings(kubeconfig=path)) == name
    assert cluster_factory.context_name(ClusterSettings(kubeconfig=path, context="other")) == "other"
    assert name is None or ClusterSettings.model_validate({"name": name}).name == name


def test_without_a_kubeconfig_a_cluster_has_no_name_of_its_own() -> None:
    assert cluster_factory.context_name(ClusterSettings(url="http://127.0.0.1:1")) is None


def test_a_kubeconfig_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    file = _file(tmp_path)
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(BadInput, match=r"kubeconfig' cannot be read: Permission denied"):
        cluster_factory.connection(ClusterSettings(kubeconfig=file))
