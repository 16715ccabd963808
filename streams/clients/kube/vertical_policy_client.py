"""VerticalPolicy objects (deploy/crds/verticalpolicies.yaml): the fields that are read, and writing their status."""

import msgspec

from streams.clients.kube import api_paths, commanding_objects
from streams.clients.kube.api import Api
from streams.clients.kube.commanding_objects import ROOT, CommandingObject
from streams.clients.kube.json_objects import Json

PLURAL = "verticalpolicies"
PATH = f"{ROOT}/{PLURAL}"
KIND = "VerticalPolicy"
# The type of the CRD takes numbers and text, as Kubernetes' own quantities do.
Quantity = str | int | float


class PolicyObject(CommandingObject, frozen=True, gc=False):
    """An object of this kind."""


class PolicyTarget(msgspec.Struct, frozen=True, gc=False):
    """Which workloads of the object's own namespace: all, those of a kind, one, or those whose names begin so (`cart-*`)."""

    kind: str = ""
    name: str = ""


class PolicyContainer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The settings of one container name; `min` and `max` are quantities of cpu and memory."""

    container: str = "*"
    min: dict[str, Quantity] = {}
    max: dict[str, Quantity] = {}
    policy: str | None = None
    risk_cpu: float | None = None
    risk_oom: float | None = None


class PolicySpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec. `guards` are settings of the updater by their own names in camel case."""

    target: PolicyTarget = PolicyTarget()
    mode: str = "InPlaceOrRecreate"
    containers: list[PolicyContainer] = []
    guards: dict[str, bool | int | float | str] = {}
    patch_new_pods: bool = True


def decode_spec(spec: msgspec.Raw) -> PolicySpec:
    """The spec. Raises ValueError with the place of what is not as the type has it."""
    return commanding_objects.decode_spec(spec, PolicySpec)


def write_status(api: Api, policy: CommandingObject, status: Json) -> None:
    """Merge this into the status of this object, unless another has its name now. Raises Unreachable, TryAgain and GiveUp."""
    path = api_paths.scoped(ROOT, policy.metadata.namespace, PLURAL, policy.metadata.name)
    commanding_objects.merge_status(api, path, KIND, policy, status)
