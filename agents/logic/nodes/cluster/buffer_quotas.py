"""How many pods of CapacityBuffers the ResourceQuotas of their namespace leave room for.

Room that no pod could use is not kept. Buffers share what a quota has left, the older one first, and use none of it up: a real
pod comes before them. Source: resourcequotas.go in capacitybuffer/controller, which leaves the number of pods out of account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature
from agents.logic.resources import quota_admission
from agents.logic.resources.pod_resources import PodResources
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.resources.resource_lists import Container
from schemas import exact_quantity
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.pod_requests import CPU

_UNIT, _MILLI = 10**9, 10**6


@dataclass(slots=True)
class BufferQuotas:
    """The quotas of a cluster by namespace. `reserved` are the amounts of buffers that came first, by quota, in billionths."""

    quotas: Mapping[str, Sequence[ResourceQuotaChanged]]
    reserved: dict[str, dict[str, int]] = field(default_factory=dict)

    def allowed(self, namespace: str, nature: PodNature, wanted: int) -> tuple[int, str]:
        """How many of so many pods may come, and the sentence of the quotas that let no more come; empty if all may."""
        pod, counting = _quota_pod(nature), []
        number, full = wanted, []
        for quota in self.quotas.get(namespace, ()):
            most = quota_admission.most_pods(quota, pod, self.reserved.get(quota.key, {}))
            if most is not None:
                counting.append(quota)
                number = min(number, most)
            if most is not None and most < wanted:
                full.append(f"'{quota.name}'")
        used = quota_admission.usage(pod.resources)
        for quota in counting:
            mine = self.reserved.setdefault(quota.key, {})
            mine.update({name: mine.get(name, 0) + number * amount for name, amount in used.items()})
        return number, f"room for {number} of {wanted}, by ResourceQuota {', '.join(full)}" if full else ""


def _quota_pod(nature: PodNature) -> QuotaPod:
    """One of the buffer's pods."""
    requests = {
        name: exact_quantity.of_nano(amount * (_MILLI if name == CPU else _UNIT))
        for name, amount in nature.shape.requests
        if amount
    }
    between = nature.shape.affinity or nature.shape.anti_affinity
    return QuotaPod(
        PodResources((Container("app", requests),)),
        # Of its class only the priority is known: with none, or zero, it counts as a pod without class.
        priority_class=None if nature.priority else "",
        terminating=False,
        crosses=None if between else False,
    )
