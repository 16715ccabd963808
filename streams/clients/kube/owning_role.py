"""Makes an object of the whole cluster go with the ClusterRole of the process that made it.

An uninstall takes a process's rights away before the process has ended, so it cannot delete what it registered with the API
server. Kubernetes does, if that names the role as its owner.
"""

from streams.clients.kube.json_objects import Json, ObjectStore
from streams.errors import GiveUp

PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


class OwningRole:
    """The ClusterRole of this name, among `objects`."""

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self._objects, self._name = objects, name

    def owned(self, body: Json) -> Json:
        """`body`, which is to be made, with the role as its owner; as it is without a role that we may see. Raises TryAgain."""
        try:
            role = self._objects.find(self._name)
        except GiveUp:
            return body
        if role is None:
            return body
        owner = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "name": self._name,
            "uid": role["metadata"]["uid"],
        }
        return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}
