"""ClusterControl objects (deploy/crds/clustercontrols.yaml): the fields that are read, and writing their status."""

import msgspec

from streams.clients.kube import commanding_objects
from streams.clients.kube.api import Api
from streams.clients.kube.commanding_objects import ROOT, CommandingObject
from streams.clients.kube.json_objects import Json

PATH = f"{ROOT}/clustercontrols"
KIND = "ClusterControl"


class ControlObject(CommandingObject, frozen=True, gc=False):
    """An object of this kind."""


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


def decode_spec(spec: msgspec.Raw) -> ControlSpec:
    """The spec. Raises ValueError with the place of what is not as the type has it."""
    return commanding_objects.decode_spec(spec, ControlSpec)


def write_status(api: Api, control: CommandingObject, status: Json) -> None:
    """Merge this into the status of this object, unless another has its name now. Raises Unreachable, TryAgain and GiveUp."""
    commanding_objects.merge_status(api, f"{PATH}/{control.metadata.name}", KIND, control, status)
