"""Facts about CapacityBuffers (`autoscaling.x-k8s.io`): room that nodes are to have for pods that nobody made."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.facts.scheduled_pods import PodShapeSeen

ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The strategy of the buffers that nodes are kept for, and upstream's default."""
READY_FOR_PROVISIONING = "ReadyForProvisioning"
"""The type of the condition of a buffer's status that says whether it is known for which pods there is to be room."""
LIMITED_BY_QUOTAS = "LimitedByQuotas"
"""The type of the condition that says that quotas of the namespace leave room for fewer pods than the buffer wants."""


@dataclass(frozen=True, slots=True)
class BufferShown:
    """What a buffer's own status says, whoever wrote it. `message` is that of its condition `ReadyForProvisioning`.

    `limited` is that of `LimitedByQuotas`, empty if it is not true.
    """

    ready: bool
    replicas: int | None = None
    template: str = ""
    generation: int | None = None
    message: str = ""
    limited: str = ""


@dataclass(frozen=True, slots=True)
class CapacityBufferSeen:
    """A buffer, new or changed, with the PodTemplate that it names, or the workload whose pods it is like.

    `template` is the shape of one of its pods, `template_name` and `template_generation` are those of the PodTemplate. Where it
    names a workload, `template` is what that would make, if it has no pods now. `limits` bound what all of its pods request
    together, in whole amounts, CPU in thousandths of a core. `percentage` is of the workload's pods.
    """

    at: datetime
    cluster: str
    namespace: str
    name: str
    uid: str
    strategy: str = ""
    template_name: str = ""
    template: PodShapeSeen | None = None
    template_generation: int | None = None
    workload_kind: str = ""
    workload_name: str = ""
    replicas: int | None = None
    percentage: int | None = None
    limits: Mapping[str, int] | None = None
    shown: BufferShown | None = None


@dataclass(frozen=True, slots=True)
class CapacityBufferGone:
    """A buffer is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str
