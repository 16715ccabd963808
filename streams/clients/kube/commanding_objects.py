"""Objects by which somebody commands Ullage (deploy/crds): how they are read, and what their status says became of them."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from streams import typed_json
from streams.clients.kube import api_paths
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.json_objects import Json
from streams.clients.kube.pod_objects import AuthoredMeta

ROOT = "/apis/ullage.internal/v1alpha1"


class CommandingObject(msgspec.Struct, frozen=True, gc=False):
    """An object with spec and status undecoded."""

    metadata: AuthoredMeta
    # People write them, and one bad field must not hide the object's name.
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class AppliedCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The condition `Applied`: whether the spec of this generation is in force, and else why not."""

    type: str = ""
    status: str = ""
    message: str = ""
    observed_generation: int = 0


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[AppliedCondition] = []


def applied(command: CommandingObject) -> AppliedCondition:
    """What the object's status says of it; an empty condition if it says nothing that can be read."""
    try:
        conditions = typed_json.decode_object(command.status, _Status).conditions
    except ValueError:
        return AppliedCondition()
    return next((condition for condition in conditions if condition.type == "Applied"), AppliedCondition())


def status(command: CommandingObject, at: datetime, *, in_force: bool, message: str) -> Json:
    """A status with the condition `Applied` for the spec of this generation."""
    condition: Mapping[str, object] = {
        "type": "Applied",
        "status": "True" if in_force else "False",
        "reason": "InForce" if in_force else "Refused",
        "message": message,
        "observedGeneration": command.metadata.generation,
        # The form of Kubernetes' own times (metav1.Time).
        "lastTransitionTime": at.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    return {"observedGeneration": command.metadata.generation, "conditions": [condition]}


STATUS_MANAGER = "ullage-commands"
"""The field manager of the statuses."""


def _merge_status(api: Api, path: str, kind: str, command: CommandingObject, status: Json) -> None:
    """Merge this into the status of the object at `path`. Raises Unreachable, TryAgain and GiveUp."""
    name = command.metadata.name
    # The server refuses a patch with the uid of another object, so that a successor of the same name gets no foreign status.
    body = {"metadata": {"uid": command.metadata.uid}, "status": status}
    request = ApiRequest(
        f"{path}/status?fieldManager={STATUS_MANAGER}", f"writing the status of {kind}", name, "PATCH", body, MERGE_PATCH
    )
    accepted_body(api.send(request), request)


CONTROLS_PATH = f"{ROOT}/clustercontrols"
CONTROL_KIND = "ClusterControl"


class ControlObject(CommandingObject, frozen=True, gc=False):
    """A ClusterControl (deploy/crds/clustercontrols.yaml)."""


class ScheduleSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What holds for `minutes` from each moment of the cron schedule `begins` on, in UTC unless `time_zone` says otherwise."""

    begins: str
    minutes: int
    time_zone: str = ""
    mode: str | None = None
    budget: float | None = None
    paused: bool = False
    reason: str = ""


class ControlSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec. `budget` is a share of the pods; `on_an_open_log` permits mode apply on a log that anybody may write."""

    mode: str
    budget: float = 0.1
    paused: bool = False
    reason: str = ""
    on_an_open_log: bool = False
    schedules: tuple[ScheduleSpec, ...] = ()


def decode_control(spec: msgspec.Raw) -> ControlSpec:
    """The spec. Raises ValueError with the place of what is not as the type has it."""
    return typed_json.decode_object(spec, ControlSpec, "spec")


def write_control_status(api: Api, control: CommandingObject, status: Json) -> None:
    """Merge this into the status of this object, unless another has its name now. Raises Unreachable, TryAgain and GiveUp."""
    _merge_status(api, f"{CONTROLS_PATH}/{control.metadata.name}", CONTROL_KIND, control, status)


POLICY_PLURAL = "verticalpolicies"
POLICIES_PATH = f"{ROOT}/{POLICY_PLURAL}"
POLICY_KIND = "VerticalPolicy"
# The type of the CRD takes numbers and text, as Kubernetes' own quantities do.
Quantity = str | int | float


class PolicyObject(CommandingObject, frozen=True, gc=False):
    """A VerticalPolicy (deploy/crds/verticalpolicies.yaml)."""


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


def decode_policy(spec: msgspec.Raw) -> PolicySpec:
    """The spec. Raises ValueError with the place of what is not as the type has it."""
    return typed_json.decode_object(spec, PolicySpec, "spec")


def write_policy_status(api: Api, policy: CommandingObject, status: Json) -> None:
    """Merge this into the status of this object, unless another has its name now. Raises Unreachable, TryAgain and GiveUp."""
    path = api_paths.scoped(ROOT, policy.metadata.namespace, POLICY_PLURAL, policy.metadata.name)
    _merge_status(api, path, POLICY_KIND, policy, status)
