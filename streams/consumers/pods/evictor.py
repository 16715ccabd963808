"""The evictor: evicts a pod through the eviction API, so that disruption budgets hold, if nothing changed since the decision.

A pod that is gone is what was asked for, whoever did it. Refuses a pod whose requests are not those that were expected.
"""

from schemas.decisions.pod_updates import EvictionPlanned
from schemas.names import Amounts, PodName
from schemas.outcomes import Action, Result
from streams.clients.cluster_port import ClusterClient, Pod
from streams.clients.kube.quantities import same
from streams.consumers.executing.executor import Acting, Finding, Post
from streams.consumers.executing.wording import spelled
from streams.errors import GiveUp


def evictor(post: Post, client: ClusterClient) -> Acting[EvictionPlanned]:
    """A consumer that carries out EvictionPlanned on `client`."""
    return Acting(post, planned=EvictionPlanned, action=Action.EVICT, act=lambda plan: evict(client, plan))


def evict(client: ClusterClient, plan: EvictionPlanned) -> Finding:
    """Look, then act. Raises TryAgain and GiveUp."""
    pod = _still_there(client, plan.pod)
    if pod is None:
        return _gone(plan.pod)
    seen = {container.name: container.requests for container in pod.containers}
    now = {name: seen.get(name, Amounts()) for name in plan.expect}
    if not same(now, plan.expect):
        return Finding(Result.REFUSED, f"it moved: the pod requests {spelled(now)}, expected {spelled(plan.expect)}")
    try:
        client.evict(pod.pod)
    except GiveUp:
        if _still_there(client, plan.pod) is None:
            return _gone(plan.pod)
        raise
    return Finding(Result.DONE, "the cluster accepted the eviction")


def _still_there(client: ClusterClient, wanted: PodName) -> Pod | None:
    """The pod, unless it is gone or going."""
    pod = client.pod(wanted.namespace, wanted.name)
    return None if pod is None or pod.pod.uid != wanted.uid or pod.leaving else pod


def _gone(pod: PodName) -> Finding:
    return Finding(Result.DONE, f"pod '{pod.name}' with uid '{pod.uid}' is gone already")
