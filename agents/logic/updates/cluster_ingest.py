"""Takes the facts, recommendations, switches and outcomes of clusters in, and holds what is newest of each."""

from dataclasses import replace

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.parted_state import StatePart
from agents.engine.turn import Recorded, Turn
from agents.logic.policies import Policies
from agents.logic.updates.cluster_records import NO_NOTE, Control, Facts, Note, Pod, Recommended
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted, ResizeState
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged
from schemas.subjects import SubjectKind


class Intake:
    """What is known of all clusters of a partition."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.pods: ObjectTable[Pod] = ObjectTable("pods", Pod, 256)
        self.recommended: ObjectTable[Recommended] = ObjectTable("recommended", Recommended, 256)
        self.notes: ObjectTable[Note] = ObjectTable("notes", Note, 64)
        self.control: ObjectTable[Control] = ObjectTable("control", Control, 1)
        self.facts: ObjectTable[Facts] = ObjectTable("facts", Facts, 1)
        self._pods_of: dict[str, dict[str, Pod]] | None = None

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self.pods, self.recommended, self.notes, self.control, self.facts)

    def loaded(self) -> None:
        """A chunk was loaded: what follows from the tables is to be made again."""
        self._pods_of = None

    @property
    def pods_of(self) -> dict[str, dict[str, Pod]]:
        """The pods of each workload by uid."""
        if self._pods_of is None:
            self._pods_of = {}
            for uid, pod in self.pods.items():
                self._pods_of.setdefault(pod.fact.workload.key, {})[uid] = pod
        return self._pods_of

    def take(self, turn: Turn) -> None:
        """Take a turn in, input by input."""
        for recorded in turn.of("policies"):
            self.policies.take(recorded)
        for recorded in turn.of("control"):
            if isinstance(recorded.event, ControlChanged):
                self.control.upsert(recorded.event.cluster, Control(recorded.event, recorded.place))
        for recorded in turn.of("pod-changes-by-cluster"):
            self._fact(recorded, turn.number)
        for recorded in turn.of("recommendations-by-cluster"):
            self._recommendation(recorded)
        for recorded in turn.of("outcomes"):
            if isinstance(recorded.event, ActionFinished):
                self._outcome(recorded.event)

    def _fact(self, recorded: Recorded, now: int) -> None:
        event = recorded.event
        if isinstance(event, PodChanged):
            self._changed(event, recorded, now)
        elif isinstance(event, PodDeleted):
            self._forget(event.pod.uid)
        else:
            return
        self.facts.upsert(event.workload.cluster, Facts(now))

    def _changed(self, event: PodChanged, recorded: Recorded, now: int) -> None:
        uid = event.pod.uid
        pod = Pod(replace(event, labels={}), recorded.place)
        self._unlist(uid)  # its owner may be known better now than before
        self.pods_of.setdefault(event.workload.key, {})[uid] = pod
        self.pods.upsert(uid, pod)
        note = self.notes.get(uid) or NO_NOTE
        resizing = None if event.resize is ResizeState.NONE else (note.resizing or now)
        if resizing != note.resizing:
            self.notes.upsert(uid, replace(note, resizing=resizing))

    def _forget(self, uid: str) -> None:
        self._unlist(uid)
        self.pods.remove(uid)
        self.notes.remove(uid)

    def _unlist(self, uid: str) -> None:
        """Take a pod out of its workload's. The index is made from the table, so this comes before the table changes."""
        known, by_workload = self.pods.get(uid), self.pods_of
        if known is not None:
            pods = by_workload[known.fact.workload.key]
            del pods[uid]
            if not pods:
                del by_workload[known.fact.workload.key]

    def _recommendation(self, recorded: Recorded) -> None:
        event = recorded.event
        if not isinstance(event, RequestsRecommended):
            return
        key, turn = event.workload.key, _turn(event)
        known = self.recommended.get(key)
        if known is None or turn > known.turn:
            kill = event.last_oom
            oom_at, oom_uid = (None, "") if kill is None else (kill.at, kill.pod.uid)
            new = Recommended(event.id, turn, event.at, recorded.place, event.containers, oom_at, oom_uid)
            self.recommended.upsert(key, new)

    def forget_recommendations(self, before: int) -> None:
        """Forget those of workloads without a pod that are older than this turn: they would be too old to act on."""
        old = [key for key, known in self.recommended.items() if known.turn < before and key not in self.pods_of]
        for key in old:
            self.recommended.remove(key)

    def _outcome(self, event: ActionFinished) -> None:
        if event.subject.kind is not SubjectKind.POD:
            return
        note = self.notes.get(event.subject.uid)
        if note is None or note.plan is None or note.plan.id != event.decision:
            return
        if event.result is Result.DONE and event.action is Action.EVICT:
            note = replace(note, plan=replace(note.plan, done=True))
        else:
            failed = event.action is Action.RESIZE and event.result is Result.FAILED
            note = replace(note, plan=None, resize_failed=note.resize_failed or failed)
        self.notes.upsert(event.subject.uid, note)


def _turn(event: RequestsRecommended) -> int:
    """The turn of a recommendation; its time is its turn's."""
    return round(event.at.timestamp() * 1000)
