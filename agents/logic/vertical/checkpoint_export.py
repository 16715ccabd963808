"""The checkpoints that upstream's recommender would save: one for each container name of a VPA's workload.

They have all usage that belongs to the VPA, including containers with mode Off, without the peaks of running windows. This only
reads; the caller writes.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from agents.logic.usage import histogram_checkpoints
from agents.logic.vertical.aggregated_usage import added
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.usage_ingest import UsageIngest
from schemas.facts.vpa_checkpoints import CheckpointSeen
from schemas.names import Workload


def export(intake: UsageIngest, members: ContainerIndex, workload: Workload, at: datetime) -> tuple[CheckpointSeen, ...]:
    """The checkpoints of a workload's VPA, sorted by container; none where it has no VPA that is ours."""
    governing = intake.policies.of(workload.key)
    if governing is None or governing.policy.vpa is None or governing.policy.foreign:
        return ()
    containers = members.containers(workload.key)
    about = workload, governing.policy.vpa.name
    return tuple(_checkpoint(intake, members.rows(member), (*about, name), at) for name, member in containers)


def _checkpoint(intake: UsageIngest, parts: Sequence[int], name: tuple[Workload, str, str], at: datetime) -> CheckpointSeen:
    usage = intake.usage
    rows = np.array(parts, np.int64)
    total, (row,) = added(usage, [parts])
    used = usage.containers.used()
    live = used[np.isin(usage.containers["aggregate"][used], rows)]
    # A peak of a running window is not final: upstream's recommender would count it a second time when the window ends.
    histogram_checkpoints.take_running_peaks(usage, total.memory, int(row), live, at.timestamp())
    numbers = total.aggregates
    return CheckpointSeen(
        at,
        *name,
        version=histogram_checkpoints.VERSION,
        first=numbers.floats("first").item(row),
        last=numbers.floats("last").item(row),
        count=numbers.whole("count").item(row),
        cpu=histogram_checkpoints.saved(total.cpu, int(row)),
        memory=histogram_checkpoints.saved(total.memory, int(row)),
    )
