"""What a process registers goes with its ClusterRole, where it may look at that; else it is made all the same."""

from collections.abc import Mapping
from typing import Any

from streams.clients.kube.json_objects import Json, OwningRole
from streams.errors import GiveUp
from tests.support.api_objects import ApiObjects

BODY: Json = {"kind": "APIService", "metadata": {"name": "ours"}}


class Forbidden(ApiObjects):
    def find(self, name: str) -> Json | None:
        raise GiveUp(doing="reading ClusterRole", to=name, answer="HTTP 403")


def owned(roles: ApiObjects) -> Mapping[str, Any]:
    return OwningRole(roles, "ullage-metrics-api").owned(BODY)


def test_the_role_is_the_owner() -> None:
    roles = ApiObjects()
    roles.create("ullage-metrics-api", {"metadata": {"name": "ullage-metrics-api", "uid": "u-1"}})
    (owner,) = owned(roles)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ClusterRole", "ullage-metrics-api", "u-1")


def test_without_a_role_or_the_right_to_see_it_nobody_is() -> None:
    assert owned(ApiObjects()) == BODY
    assert owned(Forbidden()) == BODY
