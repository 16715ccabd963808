"""The updater: pods, recommendations, policies, switches and outcomes of whole clusters in; plans and refusals out.

Each interval of event time it looks at every pod of a workload that has a policy and a recommendation. A pod has at most one
plan at a time. A refusal is said when its guard changes, not each time. It touches no pod itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.parted_state import PartedState
from agents.engine.turn import Decided, Turn
from agents.logic.policies import Policies
from agents.logic.updates import plan_builder
from agents.logic.updates.candidate import Candidate, Compared, Known, candidate
from agents.logic.updates.cluster_ingest import Intake
from agents.logic.updates.cluster_records import NO_NOTE, Marks, Note, Plan
from agents.logic.updates.guards import Scene, first_no
from agents.logic.updates.headcount import Headcount
from agents.logic.updates.update_settings import UpdateSettings
from schemas.facts.pods import PodPhase
from schemas.names import cluster_of
from schemas.policies.vpa import DEFAULT_RECOMMENDER

_GONE = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class Updater(PartedState):
    """The state of one partition."""

    def __init__(self, settings: UpdateSettings, partition: int, recommender: str = DEFAULT_RECOMMENDER) -> None:
        self.settings, self.partition = settings, partition
        self.policies = Policies(recommender)
        self.known = Intake(self.policies)
        self.marks: ObjectTable[Marks] = ObjectTable("marks", Marks, 1)
        self._compared = Compared()
        super().__init__(*self.policies.tables(), self.marks, *self.known.tables())

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; plan and refuse if it is time."""
        self.known.take(turn)
        marks = self.marks.get("") or Marks(turn.number, turn.number)
        self.marks.upsert("", replace(marks, turn=turn.number))
        interval = int(self.settings.interval * 1000)
        if turn.number // interval == marks.turn // interval:
            return []
        return self._look(turn, marks)

    def _look(self, turn: Turn, marks: Marks) -> list[Decided]:
        self.known.forget_recommendations(turn.number - int(self.settings.recommendation_within * 1000))
        self._compared.forget(self.known.pods)
        decided: list[Decided] = []
        clusters: dict[str, list[str]] = {}
        for workload in sorted(self.known.pods_of):
            clusters.setdefault(cluster_of(workload), []).append(workload)
        for cluster, workloads in clusters.items():
            decided += self._look_at(turn, marks, cluster, workloads)
        return decided

    def _look_at(self, turn: Turn, marks: Marks, cluster: str, workloads: Sequence[str]) -> list[Decided]:
        """One cluster: candidates of all its workloads, most urgent first, past the guards."""
        found = [one for workload in workloads for one in self._candidates(workload, turn.number)]
        if not found:
            return []
        total = Headcount()
        counts = {workload: self._count(workload, turn.number, total) for workload in workloads}
        seen = self.known.facts.get(cluster)
        scene = Scene(
            now=turn.number,
            first_turn=marks.first,
            facts_seen=marks.first if seen is None else seen.seen,
            control=self.known.control.get(cluster),
            cluster=total,
            workload=total,
            planned=0,
            settings=self.settings,
        )
        return self._judge(turn, scene, sorted(found, key=lambda c: c.order), counts)

    def _judge(self, turn: Turn, scene: Scene, found: Iterable[Candidate], counts: dict[str, Headcount]) -> list[Decided]:
        decided = []
        for one in found:
            scene = replace(scene, workload=counts[one.known.workload])
            no = first_no(one, scene)
            if no is None:
                decided.append(plan_builder.plan(one, scene, turn, self.partition))
                self._planned(one, decided[-1])
                scene.workload.acting += 1
                scene.cluster.acting += 1
                scene = replace(scene, planned=scene.planned + 1)
            elif one.known.note.refused != no.guard:
                decided.append(plan_builder.refusal(one, scene, no, turn, self.partition))
                self._note(one.known.pod.fact.pod.uid, replace(one.known.note, refused=no.guard))
        return decided

    def _candidates(self, workload: str, now: int) -> list[Candidate]:
        """Pods of a workload that should be changed and have no plan; the others' refusals are over."""
        held = self.policies.of(workload)
        recommended = None if held is None else self.known.recommended.get(workload)
        if held is None or recommended is None:
            return []
        found = []
        for uid, pod in sorted(self.known.pods_of[workload].items()):
            note = self.known.notes.get(uid) or NO_NOTE
            if pod.fact.phase in _GONE or _live(note, now):
                continue
            known = Known(now, workload, pod, recommended, held, note, self._compared.of(pod, recommended))
            one = candidate(known, self.settings)
            if one is not None:
                found.append(one)
            elif note.refused:
                self._note(uid, replace(note, refused=""))
        return found

    def _count(self, workload: str, now: int, total: Headcount) -> Headcount:
        count = Headcount()
        for uid, pod in self.known.pods_of[workload].items():
            if pod.fact.phase not in _GONE:
                running = pod.fact.phase is PodPhase.RUNNING
                acting = _live(self.known.notes.get(uid) or NO_NOTE, now)
                count.count(running=running, acting=acting)
                total.count(running=running, acting=acting)
        return count

    def _planned(self, one: Candidate, decided: Decided) -> None:
        expires = one.known.now + int(self.settings.expires * 1000)
        plan = Plan(decided.event.id, one.action, expires)
        self._note(one.known.pod.fact.pod.uid, replace(one.known.note, plan=plan, acted=one.known.now, refused=""))

    def _note(self, uid: str, note: Note) -> None:
        self.known.notes.upsert(uid, note)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.known.loaded()
        self.policies.loaded()


def _live(note: Note, now: int) -> bool:
    """Whether a plan for the pod may still be carried out, or was and the pod is on its way out."""
    return note.plan is not None and now <= note.plan.expires
