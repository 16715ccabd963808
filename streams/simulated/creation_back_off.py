"""How a simulated ReplicaSet tries again when it cannot make a pod: one pod at a time, less and less often, until one comes.

Source: Kubernetes' pkg/controller/replicaset/replica_set.go. The pause doubles from 5 ms to 1,000 s; the tries of the first
seconds fall into one step here. What becomes of its own pods, or of its number of replicas, wakes it at once.
"""

from dataclasses import dataclass

FIRST, MOST = 20, 1000
"""Seconds of the first pause that is longer than a step, and of the longest."""


@dataclass(slots=True)
class _Failure:
    message: str
    delay: int
    again: int


class CreationBackOff:
    """The ReplicaSets that cannot make pods, by namespace and name of their deployments."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], _Failure] = {}

    def may_try(self, deployment: tuple[str, str], now: int) -> bool:
        """Whether it is time to try."""
        failure = self._failures.get(deployment)
        return failure is None or now >= failure.again

    def failed(self, deployment: tuple[str, str], message: str, now: int) -> None:
        """A pod was refused."""
        before = self._failures.get(deployment)
        delay = FIRST if before is None else min(2 * before.delay, MOST)
        # the first answer stays, as in the condition `ReplicaFailure`
        self._failures[deployment] = _Failure(message if before is None else before.message, delay, now + delay)

    def made(self, deployment: tuple[str, str]) -> None:
        """All pods could be made."""
        self._failures.pop(deployment, None)

    def wake(self, deployment: tuple[str, str]) -> None:
        """Something of it changed, so it tries in the next step."""
        failure = self._failures.get(deployment)
        if failure is not None:
            failure.again = 0

    def message(self, deployment: tuple[str, str]) -> str:
        """What was answered when it could not make a pod; empty while it can."""
        failure = self._failures.get(deployment)
        return "" if failure is None else failure.message
