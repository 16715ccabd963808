"""The roles of deploy/helm/ullage/rbac on the plane: a component runs as its own ServiceAccount, in a namespace of the test's."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.api_requests import Asking, Refused
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

ROLES = Path(__file__).resolve().parents[2] / "deploy/helm/ullage/rbac"
_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


class Account:
    """What `deploy/helm/ullage/rbac/COMPONENT.yaml` makes, with the namespace of `home` instead of `ullage`."""

    def __init__(self, plane: Plane, home: World, component: str) -> None:
        self._plane, self._home = plane, home
        self._made: list[str] = []
        for document in yaml.safe_load_all((ROLES / f"{component}.yaml").read_text(encoding="utf-8")):
            self._make(document)
        path = f"{_PATHS['ServiceAccount'].format(home.namespace)}/{self.name}/token"
        self.token: str = home.ask.post(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]

    name = ""

    def close(self) -> None:
        """What belongs to the whole cluster; the rest goes with the namespace."""
        for path in self._made:
            self._home.ask.delete(path)

    def kubeconfig(self, folder: Path) -> Path:
        """A file by which a process runs as this account."""
        cluster = {"server": self._plane.url, "certificate-authority": str(self._plane.ca)}
        whole = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "it"}}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": self.token}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(whole), encoding="utf-8")
        return path

    def refused(self, method: str, path: str, body: object = None) -> bool:
        """Whether this account is not allowed that."""
        try:
            Asking(self._plane.url, self.token, str(self._plane.ca)).request(method, path, body)
        except Refused as refused:
            return refused.code == 403
        return False

    def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """What the API server's own authorizer says. `resource` may have a subresource: `pods/eviction`."""
        plural, _, sub = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "namespace": namespace}
        answer = Asking(self._plane.url, self.token, str(self._plane.ca)).post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": asked}}
        )
        return bool(answer["status"]["allowed"])

    def _make(self, document: Any) -> None:
        kind, metadata = document["kind"], document["metadata"]
        if "namespace" in metadata:
            metadata["namespace"] = self._home.namespace
        for subject in document.get("subjects", ()):
            subject["namespace"] = self._home.namespace
        if kind == "ServiceAccount":
            self.name = metadata["name"]
        path = _PATHS[kind].format(self._home.namespace)
        self._home.ask.post(path, document)
        if kind.startswith("Cluster"):
            self._made.append(f"{path}/{metadata['name']}")
