"""A log in memory with policies, recommendations and a control record, and the webhook's core that answers from it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.updates.update_settings import UpdateRules
from agents.processes.admission_reviewer import AdmissionReviewer
from schemas.catalogue import CATALOGUE, Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from schemas.units import Bytes, Cores, Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.codec.event_codec import Codec
from streams.consumers.webhook.admission import Admission, AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.consumers.webhook.review_interface import FoundOwner, Review
from streams.log.log_port import NewRecord, Positions, Record
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import admission_manifests, ticks
from tests.support.usage_scene import UnreadableLog

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
NAMES = Topics(partitions=2)
CLUSTER = "demo"
WEB = Workload(CLUSTER, "default", "Deployment", "web")


class SilentLog(UnreadableLog):
    """While `away`, it neither gives nor takes anything."""

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        self.require()
        return super().poll(positions, wait=wait, limit=limit)


class AdmissionScene:
    """`ask(pod)` is a review of a pod of ReplicaSet `web-1`, whose topmost controller is Deployment `web`."""

    def __init__(
        self, settings: AdmissionSettings | None = None, own: UpdateRules | None = None, *, mode: Mode | None = Mode.APPLY
    ) -> None:
        self.log, self.codec = SilentLog(), Codec(NAMES)
        for topic in TOPICS:
            self.log.create(NAMES.wire(topic.name), NAMES.partitions)
        self.settings, self.own, self.now = settings or AdmissionSettings(), own, 0.0
        self.counted: list[tuple[Review, str | None]] = []
        self.tick(START)
        if mode is not None:
            self.control(mode)
        self.view = self.new_view()
        self.outcomes = OutcomeQueue(self.context())
        self.admission = Admission(self.view, self.outcomes, self, clock=lambda: self.now)

    def context(self) -> LogContext:
        return LogContext.of(self.log, NAMES, CLUSTER)

    def new_view(self, heartbeat: float = 3600.0) -> AdmissionView:
        return AdmissionView(
            self.context(),
            lambda latest: AdmissionReviewer(CLUSTER, latest, self.settings, self.own),
            heartbeat=Seconds(heartbeat),
            clock=lambda: self.now,
        )

    def answered(self, review: Review, objection: str | None, _seconds: float) -> None:
        self.counted.append((review, objection))

    def tick(self, at: datetime) -> None:
        ticks.append(self.log, NAMES, int(at.timestamp() * 1000))

    def control(self, mode: Mode, *, paused: bool = False, reason: str = "") -> None:
        event = ControlChanged(START, CLUSTER, mode, paused=paused, reason=reason)
        self.log.append(self.codec.encode_for_all(event, topic="control", key=CLUSTER, source="/test"))

    def policy(self, event: Event, key: str) -> None:
        topic = "policies" if "policies" in CATALOGUE.of(type(event)).topics else "rules"
        self.log.append(self.codec.encode_for_all(event, topic=topic, key=key, source="/test"))

    def vpa(self, name: str = "web", **changed: Any) -> VpaChanged:
        given: dict[str, Any] = {
            "at": START,
            "cluster": CLUSTER,
            "namespace": "default",
            "name": name,
            "created": START,
            "target_ref": TargetRef("Deployment", "web", "apps/v1"),
            "selector": (Requirement("app", Operator.IN, ("a",)),),
            "update_mode": UpdateMode.RECREATE,
        }
        event = VpaChanged(**(given | changed))
        self.policy(event, event.key)
        return event

    def recommend(
        self, turn: int = 0, cpu: float = 0.25, *, workload: Workload = WEB, names: Sequence[str] = ("c",)
    ) -> RequestsRecommended:
        amounts = Amounts(Cores(cpu), Bytes(200 * MIB))
        containers = tuple(ContainerRecommendation(name, amounts, amounts, amounts, amounts) for name in names)
        at = START + timedelta(minutes=turn)
        event = RequestsRecommended(f"recommender/0/{turn}/requests/{workload.key}", at, workload, containers, {})
        self.log.append([self.record(event)])
        return event

    def record(self, event: RequestsRecommended) -> NewRecord:
        key = event.workload.key
        return self.codec.encode(
            event, topic="recommendations", key=key, partition=NAMES.partition_of(key), source="/ullage/recommender/0"
        )

    def ask(self, pod: Any = None, **request: Any) -> Any:
        """The response to a review; nothing new of the log is read before."""
        body = admission_manifests.review(pod or self.pod(), **request)
        return json.loads(self.admission.answer(json.dumps(body).encode(), web))["response"]

    def pod(self, **metadata: Any) -> Any:
        return admission_manifests.pod(admission_manifests.container("c", {"cpu": "100m", "memory": "100Mi"}), **metadata)

    def requests(self, pod: Any = None, **request: Any) -> Any:
        """What container 0 requests after the answer."""
        pod = pod or self.pod()
        done = admission_manifests.applied(pod, admission_manifests.operations({"response": self.ask(pod, **request)}))
        return done["spec"]["containers"][0]["resources"]["requests"]

    def finished(self) -> list[ActionFinished]:
        """The outcomes in the log, after those that wait were written."""
        self.outcomes.flush()
        records = [r for p in range(2) for r in self.log.poll({(NAMES.wire("outcomes"), p): 0})]
        return [event for event in map(self.codec.decode, records) if isinstance(event, ActionFinished)]


def web(owner: ControllerKey) -> FoundOwner:
    """Deployment `web` is above all."""
    return ControllerKey(owner.namespace, "Deployment", "web", "apps/v1")
