"""Instances and their types, read from EC2's responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance in EC2, in whatever group it is: `state` in EC2's words ("running", "shutting-down", "terminated")."""

    id: str
    state: str
    spot: bool = False
    launched: datetime | None = None

    @property
    def gone(self) -> bool:
        """Whether it will never run again."""
        return self.state in ("shutting-down", "terminated")


@dataclass(frozen=True, slots=True)
class InstanceSize:
    """A type of instance: its size, and its processor as Kubernetes spells it."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int = 0
    architecture: str = "amd64"


def read_reservation(answer: Mapping[str, Any]) -> list[InstanceState]:
    """The instances of a reservation of DescribeInstances. Raises LookupError and TypeError for what is none."""
    return [
        InstanceState(item["InstanceId"], item["State"]["Name"], item.get("InstanceLifecycle") == "spot", item.get("LaunchTime"))
        for item in answer.get("Instances") or ()
    ]


def read_size(answer: Mapping[str, Any]) -> InstanceSize:
    """A type of DescribeInstanceTypes. Raises LookupError, TypeError and ValueError for what is none."""
    processors = (answer.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
    gpus = (answer.get("GpuInfo") or {}).get("Gpus") or ()
    return InstanceSize(
        answer["InstanceType"],
        int(answer["VCpuInfo"]["DefaultVCpus"]),
        int(answer["MemoryInfo"]["SizeInMiB"]),
        sum(int(gpu.get("Count") or 0) for gpu in gpus),
        "arm64" if "arm64" in processors else "amd64",
    )
