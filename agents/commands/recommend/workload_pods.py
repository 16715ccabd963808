"""What the containers of all pods of workloads request, from the log's end, newest first and no further than is needed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.names import Amounts
from streams import reverse_log_reader
from streams.codec.container_requests_reader import ContainerRequestsReader, PodContainers, RequestedAmounts
from streams.codec.event_codec import header
from streams.log_context import LogContext

PodsOfWorkload = Sequence[Sequence[RequestedAmounts]]
"""The containers of each pod, the newest pod first."""


@dataclass(frozen=True, slots=True)
class RequestsOfPods:
    """What the pods of a workload request for one container: `usual` is what most of them do, `all` has each pod's amounts."""

    usual: Amounts
    limits: Amounts
    all: tuple[Amounts, ...]

    def ends(self, resource: str) -> tuple[float, float] | None:
        """The least and the most of a resource that a pod requests, where they differ; a request that is missing counts as 0."""
        amounts = [getattr(requests, resource) or 0 for requests in self.all]
        return None if min(amounts) == max(amounts) else (min(amounts), max(amounts))


def of_container(pods: PodsOfWorkload, container: str) -> RequestsOfPods | None:
    """The requests for one container; None if no pod has it."""
    amounts = [amounts for pod in pods for amounts in pod if amounts.name == container]
    if not amounts:
        return None
    usual = _most(amount.requests for amount in amounts)
    limits = _most(amount.limits for amount in amounts if amount.requests == usual)
    return RequestsOfPods(usual, limits, tuple(amount.requests for amount in amounts))


def _most(amounts: Iterable[Amounts]) -> Amounts:
    """The amounts that most pods have."""
    counts = Counter(amounts)
    # of equally many the larger ones, so that no order of pods decides
    return max(counts, key=lambda count: (counts[count], count.cpu or 0.0, count.memory or 0))


def newest(
    context: LogContext, reader: ContainerRequestsReader, since: datetime, wanted: Mapping[str, int]
) -> Mapping[str, PodsOfWorkload]:
    """The pods of some workloads; `wanted` says how many each has. The reading ends when so many of each are found."""
    pods: dict[str, dict[str, PodContainers | None]] = {key: {} for key in wanted}
    missing = dict(wanted)
    for stretch in reverse_log_reader.since(context.log, context.topics.wire("pod-changes"), since):
        latest = dict[tuple[str, str], PodContainers | None]()
        for record in stretch:
            key = (record.key or b"").decode(errors="replace")
            pod_in_record = reader.pod(record) if key in missing else None
            if pod_in_record is not None:
                is_there = pod_in_record.is_there and "pod-changed" in (header(record, "ce_type") or "")
                latest[key, pod_in_record.uid] = pod_in_record if is_there else None
        # stretches come newest first, so what a later stretch says of a pod is older
        for (key, uid), pod in reversed(latest.items()):
            if uid not in pods[key]:
                pods[key][uid] = pod
                missing[key] -= pod is not None
        missing = {key: count for key, count in missing.items() if count > 0}
        if not missing:
            break
    return {key: [pod.containers for pod in by_uid.values() if pod is not None] for key, by_uid in pods.items()}
