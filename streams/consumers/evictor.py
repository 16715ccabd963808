"""The evictor: evicts a pod through the eviction API, so that disruption budgets hold, if nothing changed since the decision.

A pod that is gone is what was asked for, whoever did it. Refuses a pod whose requests are not those that were expected.
"""

from schemas.decisions import EvictionPlanned
from schemas.names import Amounts
from schemas.outcomes import Action, Result
from streams.clients import ClusterClient
from streams.clients.amounts import same
from streams.consumers.acting import Acting, Finding, Post
from streams.consumers.wording import spelled


def evictor(post: Post, client: ClusterClient) -> Acting[EvictionPlanned]:
    """A consumer that carries out EvictionPlanned on `client`."""
    return Acting(post, planned=EvictionPlanned, action=Action.EVICT, act=lambda plan: evict(client, plan))


def evict(client: ClusterClient, plan: EvictionPlanned) -> Finding:
    """Look, then act. Raises TryAgain and GiveUp."""
    pod = client.pod(plan.pod.namespace, plan.pod.name)
    if pod is None or pod.pod.uid != plan.pod.uid or pod.leaving:
        return Finding(Result.DONE, f"pod '{plan.pod.name}' with uid '{plan.pod.uid}' is gone already")
    seen = {container.name: container.requests for container in pod.containers}
    now = {name: seen.get(name, Amounts()) for name in plan.expect}
    if not same(now, plan.expect):
        return Finding(Result.REFUSED, f"it moved: the pod requests {spelled(now)}, expected {spelled(plan.expect)}")
    client.evict(pod.pod)
    return Finding(Result.DONE, "the cluster accepted the eviction")
