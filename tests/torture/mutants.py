"""What can be wrong with a worker or a consumer: each mutant must make the torture come out WRONG.

A mutant patches classes of its own process and is chosen by name; the product knows nothing of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agents.engine.input_digest import InputDigests
from agents.partition_task import Task, TurnResult
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName
from schemas.policies.control import ControlChanged
from streams.clients.cluster_port import Pod
from streams.clients.kube.cluster_client import KubernetesClient
from streams.codec.event_codec import Codec
from streams.consumers.webhook.admission import Admission, unchanged
from streams.consumers.webhook.review import Review
from streams.errors import BadRecord

LATER = datetime(2999, 1, 1, tzinfo=UTC)


def skip_a_sample_after_recovery() -> None:
    """The first scrape after a state was loaded from a changelog lacks its first row."""
    resume, read = Task.resume, Task._read

    def resume_and_forget(self: Task, turn: int, *, positions: Mapping[str, int], inputs: InputDigests | None) -> None:
        resume(self, turn, positions=positions, inputs=inputs)
        vars(self)["skips"] = True

    def read_less(self: Task, record: Any, turn: int) -> Any:
        event = read(self, record, turn)
        if isinstance(event, MetricsScraped) and len(event.pods) > 1 and vars(self).pop("skips", False):
            columns = ("workloads", "pods", "containers", "cores", "memory")
            return replace(event, **{name: getattr(event, name)[1:] for name in columns})
        return event

    Task.resume, Task._read = resume_and_forget, read_less  # type: ignore[method-assign]  # the mutation itself


def drop_the_first_decision() -> None:
    """Of an opened partition the first decision is never published."""
    next_turn = Task.next_turn

    def next_turn_less(self: Task) -> TurnResult | None:
        result = next_turn(self)
        if result is None or not result.decisions or vars(self).get("dropped"):
            return result
        vars(self)["dropped"] = True
        return replace(result, decisions=result.decisions[1:])

    Task.next_turn = next_turn_less  # type: ignore[method-assign]  # the mutation itself


def act_twice() -> None:
    """A consumer asks for everything twice, the second time for the pod that has come in the place of an evicted one."""
    resize, evict = KubernetesClient.resize, KubernetesClient.evict

    def resize_twice(self: Any, pod: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        resize(self, pod, requests=requests, limits=limits)
        resize(self, pod, requests=requests, limits=limits)

    def evict_twice(self: Any, pod: PodName) -> None:
        evict(self, pod)
        others: Sequence[Pod] = [p for p in self.pods() if p.pod.namespace == pod.namespace]
        for other in others[:1]:
            evict(self, other.pod)

    KubernetesClient.resize, KubernetesClient.evict = resize_twice, evict_twice  # type: ignore[method-assign]  # the mutation itself


def do_nothing() -> None:
    """A consumer says done and does nothing."""

    def nothing(*_what: object, **_more: object) -> None:
        return

    KubernetesClient.resize = KubernetesClient.evict = nothing  # type: ignore[method-assign]  # the mutation itself


def patch_nothing() -> None:
    """The webhook says done and lets each pod through as it is."""
    conclude = Admission.conclude

    def conclude_only(self: Admission, review: Review, seconds: float = 0.0) -> bytes:
        conclude(self, review, seconds)
        return unchanged(review.uid)

    Admission.conclude = conclude_only  # type: ignore[method-assign]  # the mutation itself


def act_on_expired() -> None:
    """A consumer takes plans for good that have expired."""
    plans = ResizePlanned | EvictionPlanned
    _decode_as(lambda event: replace(event, expires=LATER, stale_after=None) if isinstance(event, plans) else event)


def act_on_paused() -> None:
    """A consumer takes a pause for none."""
    _decode_as(lambda event: replace(event, paused=False) if isinstance(event, ControlChanged) else event)


def lose_a_pause() -> None:
    """A consumer does not see the record of a pause at all, so what held before goes on to hold."""

    def lose(event: object) -> object:
        if isinstance(event, ControlChanged) and event.paused:
            raise BadRecord("lost on purpose")
        return event

    _decode_as(lose)


def _decode_as(change: Callable[[Any], object]) -> None:
    decode = Codec.decode

    def decode_otherwise(self: Codec, record: Any) -> Any:
        return change(decode(self, record))

    Codec.decode = decode_otherwise  # type: ignore[method-assign]  # the mutation itself


IN_WORKERS: Mapping[str, Callable[[], None]] = {
    "skip-sample": skip_a_sample_after_recovery,
    "drop-decision": drop_the_first_decision,
}
IN_CONSUMERS: Mapping[str, Callable[[], None]] = {
    "act-twice": act_twice,
    "do-nothing": do_nothing,
    "patch-nothing": patch_nothing,
    "act-on-expired": act_on_expired,
    "act-on-paused": act_on_paused,
    "lose-a-pause": lose_a_pause,
}


def put_on(name: str) -> None:
    """Make this process a mutant; an empty name leaves it sound."""
    if name:
        {**IN_WORKERS, **IN_CONSUMERS}[name]()
