"""What every container requests and should request, from the log alone: one row for each container, the largest saving first.

A recommendation is published again each hour and a pod every three, so the last hours of the log have all of them, however long
the log is; the newest stretch is read first, and no more than is needed. How much harm staying with its requests may do to a
container is one judgement for all tables: it rests on recorded kills and on how often what was recorded went over the requests,
never on the bounds, which follow the newest sample. docs/scan.md says what each word means.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from types import MappingProxyType
from typing import Literal

from agents.commands.recommend import target_caps
from agents.commands.recommend.target_caps import TargetCap
from agents.settings import setting_texts
from agents.why import leak_texts
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import DeliveredRisk, delivered_risks
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Seconds
from streams import reverse_log_reader
from streams.codec.container_requests_reader import (
    ContainerRequestsReader,
    PodContainers,
    ReachedAmounts,
    RecommendedAmounts,
    RecommendedRequests,
    RequestedAmounts,
)
from streams.codec.event_codec import header
from streams.log.log_port import Record
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


def requests_of(pods: PodsOfWorkload, container: str) -> RequestsOfPods | None:
    """The requests for one container; None if no pod has it."""
    amounts = [amounts for pod in pods for amounts in pod if amounts.name == container]
    if not amounts:
        return None
    usual = _most(amount.requests for amount in amounts)
    # of pods with the usual requests alone, else requests and limits would be of different pods
    limits = _most(amount.limits for amount in amounts if amount.requests == usual)
    return RequestsOfPods(usual, limits, tuple(amount.requests for amount in amounts))


def _most(amounts: Iterable[Amounts]) -> Amounts:
    """The amounts that most pods have."""
    counts = Counter(amounts)
    # of equally many the larger ones, so that no order of pods decides
    return max(counts, key=lambda count: (counts[count], count.cpu or 0.0, count.memory or 0))


def newest_pods(
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
                # later records of a stretch overwrite earlier ones of the same pod
                latest[key, pod_in_record.uid] = pod_in_record if is_there else None
        # stretches come newest first, so what a later stretch says of a pod is older
        for (key, uid), pod in reversed(latest.items()):
            if uid not in pods[key]:
                pods[key][uid] = pod
                # a pod that is gone takes no place among those that are looked for
                missing[key] -= pod is not None
        missing = {key: count for key, count in missing.items() if count > 0}
        if not missing:
            break
    return {key: [pod.containers for pod in by_uid.values() if pod is not None] for key, by_uid in pods.items()}


Risk = Literal["high", "medium", "unknown", "low"]
_RISKS: Sequence[Risk] = ("high", "medium", "unknown", "low")
OFTEN = 0.1
"""A share of the time, or of memory's daily peaks, from which being over the request is no exception."""
_SAME = 0.01
"""Amounts that differ by less than this share are the same for a reader."""
_SHORT = 0.1
"""A request that is this share below its target, or more, is called short of it although little went over it."""


def risk_of_pods(of_pods: RequestsOfPods | None, to: RecommendedAmounts, *, oom: bool) -> tuple[Risk, str]:
    """The judgement of the pod that is worst off; of equal ones the first word but "fits"."""
    if of_pods is None:
        return _judged(None, to, oom=oom)
    different = sorted(dict.fromkeys(of_pods.all), key=lambda requests: (requests.cpu or 0.0, requests.memory or 0))
    judged = [_judged(requests, to, oom=oom) for requests in different]
    return min(judged, key=lambda risk_and_why: (_RISKS.index(risk_and_why[0]), risk_and_why[1] == "fits"))


def share_over(request: float | None, reached: ReachedAmounts) -> float | None:
    """In how large a share of the time, at least, the request was exceeded: 0 where nothing shows that; None if unknown."""
    if request is None or not reached:
        return None
    return max((share for share, amount in reached if amount > request), default=0.0)


def _judged(requests: Amounts | None, to: RecommendedAmounts, *, oom: bool) -> tuple[Risk, str]:
    """The risk, and in at most four words why."""
    now = requests or Amounts()
    cpu, memory = _larger(now.cpu, to.target.cpu), _larger(now.memory, to.target.memory)
    cpu_over, memory_over = share_over(now.cpu, to.reached_cpu) or 0.0, share_over(now.memory, to.reached_memory) or 0.0
    # the first rule that holds gives the words: kills that happened before peaks, and memory, which kills, before CPU
    rules: Sequence[tuple[bool, Risk, str]] = (
        (oom, "high", "OOM killed lately"),
        (requests is None, "unknown", "no pod seen"),
        (now.cpu is None or now.memory is None, "medium", "no requests set"),
        (memory_over >= OFTEN, "high", "too little memory"),
        (memory_over > 0, "medium", "memory peaks over it"),
        (cpu_over >= OFTEN, "medium", "too little CPU"),
        (_short(now.memory, to.target.memory), "low", "needs more memory"),
        (_short(now.cpu, to.target.cpu), "low", "needs more CPU"),
        (cpu and memory, "low", "uses less"),
        (cpu, "low", "uses less CPU"),
        (memory, "low", "uses less memory"),
    )
    return next(((risk, why) for holds, risk, why in rules if holds), ("low", "fits"))


def _short(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and target >= now * (1 + _SHORT)


def _larger(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and now > target * (1 + _SAME)


CORE_IN_BYTES = 8 << 30  # as much memory as a core counts for where rows are sorted by one number: clouds' prices, about
_POD_REACH = timedelta(hours=8)
"""How far before the newest tick pods are looked for: twice the time after which each is stated again, and more."""
_LATELY = timedelta(days=1)
_RUNS = ("Job", "Pod", "Workflow", "TaskRun", "PipelineRun", "SparkApplication")
"""Kinds of which mostly each run is an object with a name of its own, where no controller above makes them."""


@dataclass(frozen=True, slots=True)
class RecommendedContainer:
    """One row. `saved` is for all pods together, negative where more is recommended; not set if unknown."""

    namespace: str
    kind: str
    workload: str
    container: str
    pods: int
    requests: Amounts | None
    target: Amounts
    lower: Amounts
    upper: Amounts
    saved: Amounts
    risk: Risk
    why: str
    """The words of docs/scan.md."""
    cluster: str = ""
    limits: Amounts = Amounts()
    """What limits are now; None where there is none."""
    other_recommender: str = ""
    """The recommender that the workload's VPA names where that is not ours: nobody acts on the row then."""
    of_pods: RequestsOfPods | None = None
    """What each pod requests; `requests` is what most of them do."""
    over: tuple[float | None, float | None] = (None, None)
    """In how large a share of the time CPU, and of its daily peaks memory, was over the usual request, at least."""
    caps: tuple[TargetCap, ...] = ()
    """What keeps the target from being what was estimated, or from being applied."""
    held_back: str = ""
    """What keeps running pods from getting the target now, in a word or two; see `request_totals`."""
    leak: str = ""
    """What is known of a memory leak, in words."""
    risk_kept: DeliveredRisk | None = None
    """What `adaptive` promised and delivered, where it decides."""

    @property
    def workload_key(self) -> str:
        """As events name the workload."""
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.workload}"

    @property
    def held_by(self) -> str:
        """The words for what caps the target, separated by commas; empty where nothing does."""
        return ", ".join(dict.fromkeys(cap.word for cap in self.caps))

    @property
    def remark(self) -> str:
        """Why the target is another, what caps it, and who else recommends for the workload."""
        leak = f"{self.leak}; " if self.leak else ""
        held = f"; held by {self.held_by}" if self.caps else ""
        other = f"; VPA of '{self.other_recommender}'" if self.other_recommender else ""
        return f"{leak}{self.why}{held}{other}"

    @property
    def worth(self) -> float:
        """What the row saves, in cores."""
        return (self.saved.cpu or 0.0) + (self.saved.memory or 0) / CORE_IN_BYTES


def read(context: LogContext, now: datetime, namespaces: Iterable[str], *, heartbeat: Seconds) -> list[RecommendedContainer]:
    """The rows of the context's cluster, of the namespaces that match one of these patterns; none means all."""
    patterns = tuple(namespaces)

    def wanted(key: str) -> bool:
        cluster, namespace, *_ = key.split("/", 2)
        return cluster == context.cluster and setting_texts.is_of_namespaces(patterns, namespace)

    reader = ContainerRequestsReader(context.codec)
    decisions = list(_recommendations(context, reader, now - reach(heartbeat)["recommendations"], wanted))
    # a recommendation need not say how many pods there are, and what one requests is wanted all the same
    counts = {decision.workload.key: max(1, decision.pods or 1) for decision in decisions}
    pods = newest_pods(context, reader, now - _POD_REACH, counts)
    return rows_of(decisions, pods, now, target_caps.of_guards(target_caps.refusals(context, now)))


def reach(heartbeat: Seconds) -> Mapping[str, timedelta]:
    """How far before the newest tick `read` looks into each topic."""
    return {"recommendations": 2 * timedelta(seconds=heartbeat), "pod-changes": _POD_REACH}


def sentences_on_caps(rows: Iterable[RecommendedContainer], most: int) -> Iterator[str]:
    """What caps targets, in sentences: those of so many rows, and how many there are more."""
    capped = [row for row in rows if row.caps]
    for row in capped[:most]:
        sentences = "; ".join(dict.fromkeys(cap.sentence for cap in row.caps))
        yield f"{row.namespace}/{row.kind}/{row.workload} is held by {row.held_by}: {sentences}"
    if len(capped) > most:
        yield f"... and {len(capped) - most} more containers are held: `-o json` has each sentence as 'held_because'"


def runs_with_names_of_their_own(rows: Iterable[RecommendedContainer]) -> str:
    """A sentence on workloads that are one run each, so that the next run is another one; empty if there are not several."""
    runs = sorted({f"{row.namespace}/{row.kind}/{row.workload}" for row in rows if row.kind in _RUNS})
    if len(runs) < 2:  # noqa: PLR2004  # one bare pod may well be meant to stay
        return ""
    kinds = " and ".join(f"{kind}s" for kind in _RUNS if any(f"/{kind}/" in run for run in runs))
    return (
        f"{len(runs)} of these workloads are {kinds} with names of their own, such as '{runs[0]}': what one needed says nothing "
        "of the next, because nothing shows that they are the same work. Runs of a CronJob are one workload (docs/usage.md)"
    )


def rows_of(
    decisions: Iterable[RecommendedRequests],
    pods: Mapping[str, PodsOfWorkload],
    now: datetime,
    refused: Mapping[str, Sequence[UpdateRefused]] = MappingProxyType({}),
) -> list[RecommendedContainer]:
    """The rows of some recommendations; `pods` has the containers of each pod, `refused` what guards say, of each workload."""
    rows = [
        replace(row, caps=target_caps.of_container(decision, container, refused.get(decision.workload.key, ())))
        for decision in decisions
        for container, row in zip(decision.containers, _rows(decision, pods.get(decision.workload.key, ()), now), strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.worth, row.namespace, row.workload, row.container))


def _recommendations(
    context: LogContext, reader: ContainerRequestsReader, since: datetime, wanted: Callable[[str], bool]
) -> Iterator[RecommendedRequests]:
    """The newest of each workload."""
    newest: dict[str, tuple[int, Record]] = {}
    stretches = reverse_log_reader.since(context.log, context.topics.wire("recommendations"), since)
    for record in chain.from_iterable(stretches):
        ident = (header(record, "ce_id") or "").split("/", 4)
        key = (record.key or b"").decode(errors="replace")
        if len(ident) == 5 and ident[2].isdecimal() and key.count("/") == 3 and wanted(key):  # noqa: PLR2004  # an id's and a key's parts
            turn = int(ident[2])
            # by turn and not by offset: after a restart a worker may have repeated an older one
            if key not in newest or turn > newest[key][0]:
                newest[key] = turn, record
    for _, record in newest.values():
        # only the newest of each workload is decoded, which is most of the cost
        recommended = reader.recommendation(record)
        if recommended is not None:
            yield recommended


def _rows(decision: RecommendedRequests, pods_seen: PodsOfWorkload, now: datetime) -> Iterator[RecommendedContainer]:
    kept = {risk.container: risk for risk in delivered_risks(decision.because)}
    for container in decision.containers:
        of_pods = requests_of(pods_seen, container.container)
        requests, pods = None if of_pods is None else of_pods.usual, 1 if decision.pods is None else decision.pods
        now_set = requests or Amounts()
        oom = decision.oom_at is not None and decision.oom_container == container.container and now - decision.oom_at < _LATELY
        risk, why = risk_of_pods(of_pods, container, oom=oom)
        yield RecommendedContainer(
            decision.workload.namespace,
            decision.workload.kind,
            decision.workload.name,
            container.container,
            pods,
            requests,
            container.target,
            container.lower,
            container.upper,
            _saved(of_pods, container.target, pods),
            risk,
            why,
            decision.workload.cluster,
            Amounts() if of_pods is None else of_pods.limits,
            decision.other_recommender,
            of_pods,
            (share_over(now_set.cpu, container.reached_cpu), share_over(now_set.memory, container.reached_memory)),
            leak=next((leak_texts.in_words(leak, now) for leak in decision.leaks if leak.container == container.container), ""),
            risk_kept=kept.get(container.container),
        )


def _saved(of_pods: RequestsOfPods | None, target: Amounts, pods: int) -> Amounts:
    """What all pods together would request less."""
    if of_pods is None:
        return Amounts()
    # a pod that was not seen requests what most do
    requests = [*of_pods.all[:pods], *[of_pods.usual] * (pods - len(of_pods.all))]
    cpu = [request.cpu - target.cpu for request in requests if request.cpu is not None and target.cpu is not None]
    memory = [request.memory - target.memory for request in requests if request.memory is not None and target.memory is not None]
    return Amounts(Cores(sum(cpu)) if cpu else None, Bytes(sum(memory)) if memory else None)
