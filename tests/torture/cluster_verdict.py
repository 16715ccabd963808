"""Judges all that was done to one simulated cluster, from what the log says and what the cluster remembers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.recommendations import RequestsRecommended
from schemas.outcomes import Action, ActionFinished
from streams.codec.event_codec import Codec
from streams.log.log_port import Record
from tests.torture.admission_judge import Recommended, judge_admission
from tests.torture.judge import Answer, ConsumerHistory, Plan, as_asked, judge
from tests.torture.recording_cluster import RecordingCluster

READ = ("pod-updates", "outcomes", "recommendations")
"""The topics (short names) that a verdict rests on."""


MILLISECOND = 0.001
"""What the log cuts off the time at which it took a record: an outcome comes half a millisecond after its act, or later."""


def verdict(
    cluster: RecordingCluster, records: Iterable[Record], codec: Codec, history: ConsumerHistory
) -> tuple[Counter[str], list[str]]:
    """Figures, and what is wrong. `records` are those of `READ`, in any order of topics; others are passed over."""
    plans: dict[str, Plan] = {}
    answers: list[Answer] = []
    patches: dict[str, list[Answer]] = {}
    recommended: list[Recommended] = []
    for record in records:
        event, at = codec.decode_or_none(record), record.timestamp_ms / 1000
        match event:
            case ResizePlanned() | EvictionPlanned() if event.workload.cluster == cluster.name:
                plans.setdefault(event.id, _plan(event, at))
            case ActionFinished() if event.subject.cluster == cluster.name:
                answer = Answer(event.decision, event.result, event.reason, at + MILLISECOND, event.at)
                where = patches.setdefault(event.subject.uid, []) if event.action is Action.PATCH else answers
                where.append(answer)
            case RequestsRecommended() if event.workload.cluster == cluster.name:
                asked = as_asked({one.container: one.target for one in event.containers})
                recommended.append(Recommended(event.workload.key, asked, at))
    created = [replace(pod, came=pod.uid in cluster.came) for pod in list(cluster.created)]
    history.deleted.update(cluster.deleted)
    figures, wrong = judge(list(plans.values()), answers, list(cluster.acts), history)
    more, also = judge_admission(created, recommended, patches, history)
    return figures + more, [*wrong, *also, *cluster.excess]


def _plan(event: ResizePlanned | EvictionPlanned, at: float) -> Plan:
    resize = isinstance(event, ResizePlanned)
    asked = as_asked(event.requests, event.limits) if isinstance(event, ResizePlanned) else ()
    return Plan(event.id, Action.RESIZE if resize else Action.EVICT, event.pod.uid, asked, event.void_after, at)
