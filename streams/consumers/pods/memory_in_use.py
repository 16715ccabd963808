"""Whether a resize would set a container's memory limit below what the container uses: then it would be killed at once.

From Kubernetes 1.34 on the kubelet checks this too, but after it has accepted the resize; we check before. Use that is not
measured holds nothing back.
"""

import structlog

from schemas.decisions.pod_updates import ResizePlanned
from schemas.names import Amounts
from schemas.outcomes import OutcomeDetail, Result
from schemas.units import Bytes
from streams.clients.cluster_port import ClusterClient, Pod
from streams.consumers.executing.handler import HandlerResult
from streams.errors import GiveUp, TryAgain

_log = structlog.get_logger(__name__)


def refusal(client: ClusterClient, pod: Pod, plan: ResizePlanned) -> HandlerResult | None:
    """Why the resize is refused; None if no limit falls below use. A container that the resize restarts begins again."""
    lowered = dict(_lowered(pod, plan))
    used = _used(client, pod) if lowered else {}
    for name, limit in lowered.items():
        memory = used.get(name, Amounts()).memory
        if memory is not None and memory > limit:
            reason = f"container '{name}' uses {memory} bytes of memory, and its limit would be lowered to {limit}"
            return HandlerResult(Result.REFUSED, reason, OutcomeDetail.BELOW_USE)
    return None


def _lowered(pod: Pod, plan: ResizePlanned) -> list[tuple[str, Bytes]]:
    """The containers whose memory limit is lowered while they run, and the new limits."""
    found = []
    for container in pod.containers:
        after, before = plan.limits.get(container.name, Amounts()).memory, container.limits.memory
        if after is not None and (before is None or after < before) and "memory" not in container.restarts_on:
            found.append((container.name, after))
    return found


def _used(client: ClusterClient, pod: Pod) -> dict[str, Amounts]:
    try:
        usage = client.pod_usage(pod.pod.namespace, pod.pod.name)
    except (TryAgain, GiveUp) as error:
        _log.warning("use cannot be read, the kubelet looks at it", pod=f"{pod.pod.namespace}/{pod.pod.name}", error=str(error))
        return {}
    return {} if usage is None else dict(usage.containers)
