"""The client port on a simulated cluster in memory: the same calls and the same errors as over HTTP."""

from collections.abc import Mapping, Sequence

from schemas.names import Amounts, PodName
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube import refusals
from streams.simulated.api_errors import ApiRefusal
from streams.simulated.cluster import SimulatedCluster


class SimulatedClient:
    """Calls a simulated cluster in the same process."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._simulated.name

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        return self._simulated.pods()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now."""
        return self._simulated.pod(namespace, name)

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used in the last window."""
        return self._simulated.usage()

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """What one pod used in the last window."""
        return self._simulated.pod_usage(namespace, name)

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Ask for new amounts in place."""
        try:
            self._simulated.resize(pod.pod, requests=requests, limits=limits, version=pod.version)
        except ApiRefusal as no:
            raise _error("resizing", pod.pod, no) from no

    def evict(self, pod: PodName) -> None:
        """Evict the pod."""
        try:
            self._simulated.evict(pod)
        except ApiRefusal as no:
            raise _error("evicting", pod, no) from no


def _error(doing: str, pod: PodName, no: ApiRefusal) -> Exception:
    return refusals.error_for_status(
        doing=doing, to=f"{pod.namespace}/{pod.name}", code=no.code, message=no.message, after=no.after, causes=(no.cause,)
    )
