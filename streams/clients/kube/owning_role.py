"""Makes an object of the whole cluster go with the ClusterRole of the process that made it.

An uninstall takes a process's rights away before the process has ended, so it cannot delete what it registered with the API
server. Kubernetes does, if that names the role as its owner.
"""

from collections.abc import Mapping

from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import Json, ObjectStore, PlainObjects
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
        except GiveUp:  # we may not read it: the object then outlives an uninstall, which is better than no object
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


class OwnedObjects:
    """An ObjectStore of which each object that is made goes with `role`."""

    def __init__(self, objects: ObjectStore, role: OwningRole) -> None:
        self._objects, self._role = objects, role

    def find(self, name: str) -> Json | None:
        """The object; None when there is none."""
        return self._objects.find(name)

    def create(self, name: str, body: Mapping[str, object]) -> Json:
        """Make it, with the role as its owner."""
        return self._objects.create(name, self._role.owned(dict(body)))

    def replace(self, name: str, body: Mapping[str, object]) -> Json:
        """Put it back as `body` says, which carries the resourceVersion that was read."""
        # What was read carries its owner already.
        return self._objects.replace(name, body)

    def delete(self, name: str) -> bool:
        """Delete it; False when it was gone already."""
        return self._objects.delete(name)


def owned(api: Api, path: str, kind: str, role: str) -> OwnedObjects:
    """Objects of the whole cluster below a path, which go with the ClusterRole of this name."""
    return OwnedObjects(PlainObjects(api, path, kind), OwningRole(PlainObjects(api, PATH, "ClusterRole"), role))
