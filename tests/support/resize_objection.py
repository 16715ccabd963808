"""What the guards of the updater object to in a resize, by the rules of the API server."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agents.logic.resources import pod_acceptance, pod_resources, quota_admission
from agents.logic.resources.limit_ranges import Ranges
from agents.logic.resources.pod_acceptance import Rules
from agents.logic.resources.quota_admission import QuotaPod
from schemas.facts.pods import PodChanged
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.names import Amounts
from streams.clients.kube import quantities


def objection(
    fact: PodChanged, changed: Mapping[str, tuple[Amounts, Amounts]], ranges: Ranges, quotas: Sequence[ResourceQuotaChanged]
) -> str | None:
    """None if they let it pass. `changed`: the new requests and limits of each container."""
    new = {
        seen.name: (
            quantities.merged(seen.requests, changed[seen.name][0]),
            quantities.merged(seen.limits, changed[seen.name][1]),
        )
        for seen in fact.containers
    }
    after = pod_resources.of_fact(fact, new)
    before = QuotaPod(pod_resources.of_fact(fact))
    resized = [replace(seen, requests=new[seen.name][0], limits=new[seen.name][1]) for seen in fact.containers]
    classes = {
        pod_resources.service_class([*containers, *fact.init_containers], fact.requests, fact.limits)
        for containers in (fact.containers, resized)
    }
    if len(classes) > 1:
        return "its class of service would change"
    worse = pod_acceptance.worse(before, QuotaPod(after), Rules(ranges))
    return worse or quota_admission.resize_objection(quotas, QuotaPod(after), before)
