"""The updater's state of clusters: pods, recommendations, policies, control records, and the results of its own plans.

It keeps the newest of each. The values are frozen and live in tables, whose names and fields stand in checkpoints.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import DeferredRecords, Recorded, Turn
from agents.logic.governing_policies import Policies
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import ControlRecord
from agents.logic.resources.target_caps import ordered_container
from agents.logic.updates import eviction_tolerance
from agents.logic.updates.eviction_tolerance import PodsBefore, UnpatchedWorkloads, WorkloadEviction
from agents.logic.updates.startup_boosts import BoostEnds
from agents.logic.updates.update_constraints import UpdateConstraints
from agents.logic.updates.updater_records import (
    NO_HISTORY,
    ChangedWorkloads,
    NewestRecommendation,
    PlansMade,
    PodFactTurns,
    PodHistory,
    PodRecord,
    PodsByWorkload,
    RefusedPods,
    RevertRecord,
)
from schemas import times
from schemas.decision_subjects import SubjectKind
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, ResizeState
from schemas.facts.update_facts import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.names import Amounts, Place, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import Mode, RevertEnded, RevertRequested

_REFUSALS = frozenset({OutcomeDetail.BELOW_USE, OutcomeDetail.INVALID})
"""Why the resizer itself refuses a resize that would be planned again as it is."""
_SERVERS = frozenset({OutcomeDetail.SERVER_ERROR, OutcomeDetail.MOVED})
"""What the API server answers where a webhook of somebody else is away, or changes the pod at each try."""
# One object for all pods, of which there are many.
_NO_LABELS: Mapping[str, str] = {}
_NOTHING: Mapping[str, Amounts] = {}


class UpdaterState:
    """All clusters of a partition."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.pods: ObjectTable[PodRecord] = ObjectTable("pods", PodRecord, 256, shares=(Workload, ContainerSeen))
        self.recommended: ObjectTable[NewestRecommendation] = ObjectTable(
            "recommended", NewestRecommendation, 2048, shares=(ContainerRecommendation,), come_shared=True
        )
        self.histories: ObjectTable[PodHistory] = ObjectTable("notes", PodHistory, 64)
        self.control: ObjectTable[ControlRecord] = ObjectTable("control", ControlRecord, 1)
        self.facts = PodFactTurns()
        self.made: ObjectTable[PlansMade] = ObjectTable("plans-made", PlansMade, 1)
        self.refused: ObjectTable[RefusedPods] = ObjectTable("refused", RefusedPods, 64)
        self.evictions: ObjectTable[WorkloadEviction] = ObjectTable("evictions", WorkloadEviction, 64)
        self.reverts: ObjectTable[RevertRecord] = ObjectTable("reverts", RevertRecord, 16)
        self.unpatched, self.constraints = UnpatchedWorkloads(), UpdateConstraints()
        self._deferred: dict[str, tuple[DeferredRecords, int]] = {}
        """Recommendations that are newer than all before, by workload; entered when somebody asks for them."""
        self._index: PodsByWorkload | None = None
        self._successors: list[PodRecord] = []
        """New pods of workloads of which one was evicted; judged at the end of the turn in which they came."""
        self.changed = ChangedWorkloads()
        self.recounted = ChangedWorkloads()
        """Those whose pods, controllers or evictions changed since they were last counted."""
        self.boost_ends = BoostEnds()
        self._touched: set[str] = set()
        """Workloads of which this turn has a recommendation, a pod or an outcome."""

    def tables(self) -> tuple[StatePart, ...]:
        """All tables but those of the policies."""
        ours = self.pods, self.recommended, self.histories, self.control, self.facts.table, self.refused, self.reverts
        return (*ours, self.evictions, self.made, self.unpatched.table, *self.constraints.tables())

    def loaded(self) -> None:
        """A chunk was loaded, so the indexes must be built again."""
        self._index = None
        self.boost_ends.forget()
        self.constraints.loaded()
        self.changed.all = self.recounted.all = True

    @property
    def pods_of(self) -> dict[str, dict[str, PodRecord]]:
        """The pods of each workload, by workload key and uid."""
        return self.index.of

    @property
    def index(self) -> PodsByWorkload:
        """The pods by workload and by controller."""
        if self._index is None:
            self._index = PodsByWorkload(self.pods.values())
        return self._index

    def ingest(self, turn: Turn) -> None:
        """Take in the records of a turn, input by input."""
        self._touched.clear()
        for recorded in (*turn.of("rules"), *turn.of("policies")):
            self._policy_changed(self.policies.take(recorded))
            self.changed.all |= self.constraints.ingest_policy(recorded.event)
            self._ingest_revert(recorded)
        shared_guards.obey(self.control, turn)
        self.constraints.rooms.ingest(turn)
        for recorded in turn.of("pod-changes-by-cluster"):
            self._ingest_fact(recorded, turn.number)
        self.facts.ingest_reports(turn)
        for part in turn.parts("recommendations-by-cluster"):
            if isinstance(part, DeferredRecords):
                self.changed.keys.update(part.subjects)
                self._touched.update(part.subjects)
                # Entered when somebody asks for them, because others may replace them before.
                self._deferred.update(zip(part.subjects, ((part, position) for position in range(len(part))), strict=True))
            else:
                self._ingest_recommendation(part)
                self._touched.update(event.workload.key for event in (part.event,) if isinstance(event, RequestsRecommended))
        for recorded in turn.of("outcomes"):
            if isinstance(recorded.event, ActionFinished):
                self._ingest_outcome(recorded.event, turn.number)

    def killed(self) -> set[str]:
        """The pods that were killed for lack of memory and may be helped now: this turn has something new of their workloads."""
        # From the state and this turn's records alone, so that a restart changes nothing.
        killed = self.index.killed
        return {uid for workload in self._touched & killed.keys() for uid in killed[workload]} if killed else set()

    def forget_recommendations(self, before: int) -> None:
        """Forget recommendations of workloads without a pod that are older than this turn, because they are too old to act on."""
        deferred, pods = self._deferred, self.pods_of
        for workload in [key for key in deferred if key not in pods]:
            self.recommendation(workload)
        for key, recommendation in list(self.recommended.items()):
            if recommendation.turn < before and key not in pods and key not in deferred:
                self.recommended.remove(key)

    def wanted(self, workload: str, now: int) -> NewestRecommendation | None:
        """What the pods of a workload should request: the former amounts during a revert, else the recommended ones."""
        revert = self.reverts.get(workload)
        return self.recommendation(workload) if revert is None else revert.recommendation(now)

    def serve(self, recommender: str) -> None:
        """Serve the VPAs of this name from now on."""
        self._policy_changed(self.policies.serve(recommender))

    def _policy_changed(self, targets: frozenset[str]) -> None:
        if targets:
            self.boost_ends.forget()
        if "*" in targets:
            self.changed.all = True
        self.changed.keys |= targets

    def _ingest_revert(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, RevertRequested | RevertEnded):
            self.changed.keys.add(event.workload.key)
        if isinstance(event, RevertRequested):
            self.reverts.upsert(event.workload.key, RevertRecord(event, recorded.place))
        elif isinstance(event, RevertEnded):
            self.reverts.remove(event.workload.key)

    def _ingest_fact(self, recorded: Recorded, now: int) -> None:
        event = recorded.event
        if isinstance(event, PodChanged):
            self._upsert_pod(event, recorded.place, now)
        elif isinstance(event, PodDeleted):
            self._remove_pod(event.pod.uid, now)
        else:
            if isinstance(event, ReplicaControllerRemoved):
                self._controller_changed(event)
            self.constraints.ingest(event)
            if isinstance(event, ReplicaControllerChanged):
                self._controller_changed(event)
            return
        self.facts.pod_seen(event.workload.cluster, now)

    def _controller_changed(self, event: ReplicaControllerChanged | ReplicaControllerRemoved) -> None:
        """What a controller wants decides how many pods of its workload are missing."""
        key = f"{event.cluster}/{event.namespace}/{event.kind}/{event.name}"
        for workload in (*self.index.workloads_of(key), self.constraints.workload_of(key)):
            self._count_again(workload)

    def _count_again(self, workload: str) -> None:
        self.changed.keys.add(workload)
        self.recounted.keys.add(workload)

    def _upsert_pod(self, event: PodChanged, place: Place, now: int) -> None:
        uid = event.pod.uid
        self._touched.add(event.workload.key)
        if event.leaving:
            self._note_leaving(uid, event.workload, now)
        # Without labels, which are kept once for the workload, as far as budgets select by them.
        pod = PodRecord(replace(event, labels=_NO_LABELS, asked=event.asked or _NOTHING), place)
        if uid not in self.pods and event.workload.key in self.evictions:
            self._successors.append(pod)
        # The source may have found a better owner since.
        self._remove_from_index(uid)
        self.constraints.budgets.note_labels(event.workload.key, event.labels)
        self.index.add(pod)
        self._count_again(event.workload.key)
        self.pods.upsert(uid, pod)
        if event.boosted:
            self.boost_ends.note(uid)
        history = self.histories.get(uid) or NO_HISTORY
        resizing = None if event.resize is ResizeState.NONE else (history.resizing or now)
        if resizing != history.resizing:
            self.histories.upsert(uid, replace(history, resizing=resizing))

    def judge_successors(self, advised: Callable[[PodRecord], Mapping[str, ContainerRecommendation] | None], now: int) -> None:
        """The first new pod after an eviction shows whether anything gives new pods other requests.

        `advised` is what admission would give a pod, by container; None if that is nothing.
        """
        for pod in self._successors:
            targets, evicted = advised(pod), self.evictions.get(pod.fact.workload.key)
            if targets is None or evicted is None:
                continue
            fault = eviction_tolerance.fault(pod.fact, evicted, targets)
            self.evictions.upsert(pod.fact.workload.key, evicted.judge(fault, now))
        self._successors.clear()

    def _note_leaving(self, uid: str, workload: Workload, now: int) -> None:
        """Note the eviction of a pod that leaves, if there is a plan for it."""
        # Its successor may be there before the outcome, and the pod gone by then.
        history, control = self.histories.get(uid), self.control.get(workload.cluster)
        if history is None or history.plan is None or not (history.to_evict and history.has_plan(now)):
            return
        if control is not None and control.event.mode is Mode.APPLY and not control.event.paused:
            self._note_eviction(workload.key, history, history.plan.expect, now)

    def _note_eviction(self, workload: str, history: PodHistory, expect: Mapping[str, Amounts], now: int) -> None:
        """From now on a new pod is judged."""
        noted = self.evictions.get(workload)
        # The same eviction is told of by the pod and by its outcome, and a verdict in between must stay.
        if noted is None or history.acted is None or noted.at < history.acted:
            self._count_again(workload)
            before, asks = (PodsBefore(), _NOTHING) if history.plan is None else (history.plan.before, history.plan.asks)
            last = noted or WorkloadEviction(now, expect)
            turns = last.turns.after(expect, asks, now)
            self.evictions.upsert(workload, WorkloadEviction(now, expect, before=before, vain=last.vain, turns=turns))

    def _remove_pod(self, uid: str, now: int) -> None:
        pod = self.pods.get(uid)
        if pod is not None:
            self._note_leaving(uid, pod.fact.workload, now)
        self._remove_from_index(uid)
        self.pods.remove(uid)
        self.histories.remove(uid)

    def _remove_from_index(self, uid: str) -> None:
        """Take a pod out of its workload's. The index is built from the table, so this comes before the table changes."""
        pod, index = self.pods.get(uid), self.index
        if pod is not None:
            self._count_again(pod.fact.workload.key)
            if index.remove(pod):
                self.constraints.budgets.forget(pod.fact.workload.key)

    def recommendation(self, workload: str) -> NewestRecommendation | None:
        """The newest recommendation of a workload."""
        deferred = self._deferred.pop(workload, None)
        if deferred is not None:
            records, position = deferred
            self._enter_recommendation(records[position])
        return self.recommended.get(workload)

    def enter_recommendations(self) -> None:
        """Enter deferred recommendations into their table, before it is dumped."""
        for workload in list(self._deferred):
            self.recommendation(workload)

    def _ingest_recommendation(self, recorded: Recorded) -> None:
        # After all that came before it.
        if self._deferred:
            self.enter_recommendations()
        self._enter_recommendation(recorded)

    def _enter_recommendation(self, recorded: Recorded) -> None:
        event = recorded.event
        if not isinstance(event, RequestsRecommended):
            return
        # The time of a decision is the time of its turn.
        key, turn = event.workload.key, times.nearest_ms(event.at)
        former = self.recommended.get(key)
        self.changed.keys.add(key)
        # After a restart the recommender may publish a turn again that it had published before.
        if former is None or turn > former.turn:
            newest = NewestRecommendation(
                event.id, turn, event.at, recorded.place, tuple(map(ordered_container, event.containers)), cuts=event.cuts
            )
            self.recommended.upsert(key, newest)

    def _ingest_outcome(self, event: ActionFinished, now: int) -> None:
        if event.subject.kind is not SubjectKind.POD:
            return
        self.unpatched.ingest(event)
        self._touched.add(event.subject.workload)
        history = self.histories.get(event.subject.uid)
        plan = None if history is None else history.plan
        if history is None or plan is None or plan.id != event.decision:
            return
        if event.result is Result.DONE and event.action is Action.EVICT:
            if event.detail is not OutcomeDetail.ALREADY_DONE and event.subject.workload:
                self._note_eviction(event.subject.workload, history, plan.expect, now)
            history = replace(history, plan=replace(plan, done=True))
        elif event.action is Action.RESIZE and event.result is Result.DONE:
            history = history.resized(plan, now)
        elif event.action is Action.RESIZE and event.result is Result.FAILED:
            infeasible = plan.asks if event.detail is OutcomeDetail.INFEASIBLE else history.infeasible
            history = replace(history.without_resize(event.reason, now), resize_failed=True, infeasible=infeasible)
        elif event.action is Action.RESIZE and (event.detail in _REFUSALS or _refused_to_the_end(event)):
            history = history.without_resize(event.reason, now)
        elif event.action is Action.EVICT and (
            (event.result is Result.FAILED and event.detail is not OutcomeDetail.NOT_FOUND) or _refused_to_the_end(event)
        ):
            # Somebody's webhook denied it, and would deny the next one: pause as after an eviction in vain.
            noted = self.evictions.get(event.subject.workload) or WorkloadEviction(now, plan.expect)
            self.evictions.upsert(event.subject.workload, noted.denied(event.subject.name, event.reason, now))
            history = replace(history, plan=None)
        else:
            history = replace(history, plan=None)
        self.histories.upsert(event.subject.uid, history)


def _refused_to_the_end(event: ActionFinished) -> bool:
    """Whether a plan expired because the API server refused each try, as it would refuse those of the next plan."""
    return event.result is Result.EXPIRED and event.detail in _SERVERS
