"""What becomes of the patches that the webhook answers with: done is only what a source saw."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from schemas.catalogue import Event
from schemas.facts.pods import AdmissionNote, AmountsBefore, ContainerSeen, PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ReplicaControllerChanged
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.units import Bytes, Cores
from streams.consumers.webhook.admission import Admission
from streams.consumers.webhook.offers import Offers
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from tests.support import admission_manifests
from tests.support.admission_scene import CLUSTER, MIB, NAMES, START, WEB, AdmissionScene, web

ASKED = {"cpu": "100m", "memory": "100Mi"}
GIVEN = {"cpu": "250m", "memory": "200Mi"}
QUOTA = "pods is forbidden: exceeded quota: compute"
BEFORE = Amounts(Cores(0.1), Bytes(100 * MIB))
POD = PodName("default", "web-1-a", "uid-a")
AFTER = Amounts(Cores(0.25), Bytes(200 * MIB))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Scene(AdmissionScene):
    """The webhook with a policy and a recommendation for `web`, and a source that reports its pods."""

    def __init__(self) -> None:
        super().__init__()
        self.vpa()
        self.recommend()
        self.view.catch_up()

    def go(self, seconds: float, *, source: bool = True) -> None:
        """So many seconds after the start; the source is at work or not."""
        if source:
            event = SourceReported(at(seconds), CLUSTER, "kube", ("pod-changes",))
            self.log.append(self.codec.encode_for_all(event, topic="cluster-changes", key=CLUSTER, source="/test"))
        self.tick(at(seconds))
        self.view.catch_up()
        self.admission.settle()

    def attempt(self, number: int = 0) -> AdmissionNote | None:
        """A controller tries to make a pod; the note that the pod would have."""
        ops = admission_manifests.operations(
            {"response": self.ask(self.pod(name=None, generateName="web-1-"), uid=f"try-{number}")}
        )
        notes = [json.loads(op["value"]) for op in ops if op["path"] == "/metadata/annotations/ullage~1admission"]
        before = (AmountsBefore("c", BEFORE),)
        return AdmissionNote(notes[0]["offer"], before) if notes else None

    def see(self, note: AdmissionNote | None, name: str, seconds: float, **changed: Any) -> None:
        """The source reports a pod that began then."""
        fact = PodChanged(
            at(seconds),
            WEB,
            PodName("default", name, f"uid-{name}"),
            PodPhase.PENDING,
            at(seconds).replace(microsecond=0),
            (ContainerSeen("c", AFTER),),
            controller="ReplicaSet/web-1",
            admitted=note,
        )
        topic = "pod-changes-by-cluster"
        partition = NAMES.partition_of(CLUSTER)
        self.log.append(
            [self.codec.encode(replace(fact, **changed), topic=topic, key=CLUSTER, partition=partition, source="/test")]
        )

    def answer_controller(self, refusal: str = QUOTA, *, seconds: float = 0, name: str = "web-1") -> None:
        """The source reports what the controller was answered; nothing where it can make pods."""
        fact = ReplicaControllerChanged(at(seconds), CLUSTER, "default", "ReplicaSet", name, 3, refusal=refusal)
        topic, partition = "pod-changes-by-cluster", NAMES.partition_of(CLUSTER)
        self.log.append([self.codec.encode(fact, topic=topic, key=CLUSTER, partition=partition, source="/test")])

    def restarted(self) -> "Scene":
        """Another process takes over, with nothing but the log."""
        self.outcomes.flush()
        self.view = self.new_view()
        self.view.catch_up()
        self.outcomes = OutcomeQueue(self.context())
        self.admission = Admission(self.view, self.outcomes, self, clock=lambda: self.now)
        return self

    def results(self) -> list[Result]:
        return [outcome.result for outcome in self.finished()]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def _of(outcomes: list[ActionFinished], result: Result) -> list[ActionFinished]:
    return [outcome for outcome in outcomes if outcome.result is result]


def test_an_offer_is_done_when_the_pod_is_seen_with_its_amounts(scene: Scene) -> None:
    note = scene.attempt()
    scene.go(1)
    assert scene.results() == [Result.OFFERED]
    scene.see(note, "web-1-a", 2)
    scene.go(3)
    offered, done = scene.finished()
    assert (done.result, done.action, done.at, done.detail) == (Result.DONE, Action.PATCH, at(2), OutcomeDetail.APPLIED)
    assert (done.subject.name, done.subject.uid, done.subject.workload) == ("web-1-a", "uid-web-1-a", WEB.key)
    assert done.id == f"{offered.decision}/patch/uid-web-1-a"
    assert done.admitted == offered.admitted
    assert done.admitted is not None
    (container,) = done.admitted.containers
    assert (container.requests_before, container.requests) == (BEFORE, AFTER)
    assert done.reason.startswith(
        "a new pod was given what VPA or policy 'web' asks for: container 'c': cpu request 250m (was 100m)"
    )


def test_pods_that_are_alike_share_an_offer_and_each_is_done(scene: Scene) -> None:
    notes = [scene.attempt(n) for n in range(5)]
    for n, note in enumerate(notes):
        scene.see(note, f"web-1-{n}", 2)
    scene.go(3)
    assert scene.results() == [Result.OFFERED, *[Result.DONE] * 5]
    assert len({outcome.id for outcome in scene.finished()}) == 6


def test_a_pod_that_is_reported_again_and_again_is_done_once(scene: Scene) -> None:
    note = scene.attempt()
    for seconds in (2, 3, 4):
        scene.see(note, "web-1-a", seconds)
        scene.go(seconds)
    scene.restarted().see(note, "web-1-a", 5)
    scene.go(5)
    assert scene.results() == [Result.OFFERED, Result.DONE]


def test_tries_of_which_no_pod_comes_are_one_loss_and_no_done(scene: Scene) -> None:
    scene.answer_controller()
    for n in range(25):
        scene.attempt(n)
        scene.go(2 * n)
    scene.go(61)
    assert scene.results() == [Result.OFFERED, Result.LOST]
    lost = scene.finished()[-1]
    assert (lost.at, lost.detail, lost.subject.workload) == (at(60), OutcomeDetail.NOT_SEEN, WEB.key)
    assert lost.reason.startswith(
        f"no pod of ReplicaSet/web-1 came within 60 s in 25 tries (the controller was answered: {QUOTA})"
    )


def test_nothing_is_lost_while_no_source_is_at_work(scene: Scene) -> None:
    scene.go(0)
    scene.attempt(0)
    scene.attempt(1)
    scene.go(600, source=False)
    assert scene.results() == [Result.OFFERED]
    assert scene.requests() == GIVEN


def test_after_a_loss_new_pods_are_left_as_they_are_and_then_it_is_tried_again(scene: Scene) -> None:
    scene.answer_controller()
    scene.attempt(0)
    scene.attempt(1)
    scene.go(61)
    assert scene.requests() == ASKED
    refused = scene.finished()[-1]
    assert refused.result is Result.REFUSED
    assert "new pods of 'demo/default/Deployment/web' are left as they are until 00:21:00 UTC: no pod of" in refused.reason
    assert "this would have been set: what VPA or policy 'web' asks for" in refused.reason
    assert "are left as they are" in scene.ask()["warnings"][0]
    scene.go(1261)
    assert scene.requests() == GIVEN


def test_each_loss_doubles_the_pause_up_to_two_hours_and_a_pod_that_comes_ends_it(scene: Scene) -> None:
    now, pauses = 0.0, []
    scene.answer_controller()
    for n in range(5):
        scene.attempt(2 * n)
        scene.attempt(2 * n + 1)
        lost_at = now + 60
        scene.go(lost_at)
        now = lost_at
        while scene.requests(dryRun=True) == ASKED:
            now += 60
            scene.go(now)
        pauses.append((now - lost_at) / 60)
    assert pauses == [20, 40, 80, 120, 120]
    scene.see(scene.attempt(99), "web-1-a", now + 1)
    scene.go(now + 2)
    scene.attempt(100)
    scene.attempt(101)
    scene.go(now + 62)
    assert scene.requests() == ASKED
    scene.go(now + 2 + 60 + 1201)
    assert scene.requests() == GIVEN


def test_a_single_review_of_which_no_pod_comes_is_lost_and_pauses_nothing(scene: Scene) -> None:
    scene.attempt()
    scene.go(61)
    assert scene.results() == [Result.OFFERED, Result.LOST]
    assert scene.requests() == GIVEN


def test_reviews_that_somebody_made_up_pause_nothing_while_the_controller_has_its_pods(scene: Scene) -> None:
    """For hours, two a minute: no controller says that it cannot make a pod."""
    scene.answer_controller("")
    scene.answer_controller(name="other-1")
    for minute in range(30):
        scene.attempt(2 * minute)
        scene.attempt(2 * minute + 1)
        scene.go(60 * minute + 61)
        assert scene.requests(dryRun=True) == GIVEN
    assert {each.detail for each in _of(scene.finished(), Result.LOST)} == {OutcomeDetail.NONE}


def test_a_controller_that_can_make_pods_again_pauses_nothing(scene: Scene) -> None:
    scene.answer_controller()
    scene.attempt(0)
    scene.attempt(1)
    scene.answer_controller("", seconds=30)
    scene.go(61)
    assert scene.requests() == GIVEN


def test_where_no_source_says_why_a_controller_has_no_pods_its_tries_are_enough(scene: Scene) -> None:
    owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web-1", "uid": "u", "controller": True}
    for n in range(2):
        scene.ask(scene.pod(name=None, generateName="web-1-", ownerReferences=[owner]), uid=f"try-{n}")
    scene.go(61)
    assert scene.results() == [Result.OFFERED, Result.LOST]
    assert scene.requests() == ASKED


def test_a_controller_that_tries_once_in_a_quarter_of_an_hour_makes_its_pod_at_the_next_try(scene: Scene) -> None:
    """As a ReplicaSet does whose pods were refused for long."""
    scene.answer_controller()
    scene.attempt(0)
    scene.go(61)
    scene.go(1000)
    assert scene.requests() == ASKED


def test_single_tries_of_a_controller_of_which_nobody_says_anything_count_together_until_a_pod_comes(scene: Scene) -> None:
    owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web-1", "uid": "u", "controller": True}

    def attempt(number: int, cpu: float) -> None:
        scene.recommend(number, cpu)
        scene.view.catch_up()
        scene.ask(scene.pod(name=None, generateName="web-1-", ownerReferences=[owner]), uid=f"try-{number}")

    attempt(0, 0.25)
    scene.go(61)
    assert scene.requests(dryRun=True) == GIVEN
    attempt(1, 0.5)
    scene.go(1200)
    assert [each.detail for each in _of(scene.finished(), Result.LOST)] == [OutcomeDetail.NONE, OutcomeDetail.NOT_SEEN]
    assert scene.requests(dryRun=True) == ASKED


def test_a_process_that_has_heard_nothing_of_a_controller_goes_by_the_pauses_in_the_log(scene: Scene) -> None:
    scene.answer_controller()
    scene.attempt(0)
    scene.go(61)
    scene.go(1300)
    assert scene.requests(dryRun=True) == GIVEN
    after = scene.restarted()
    after.attempt(1)
    after.go(1361)
    assert after.requests() == ASKED


def test_another_process_concludes_what_an_earlier_one_offered_and_keeps_its_pauses(scene: Scene) -> None:
    scene.answer_controller()
    scene.attempt(0)
    scene.outcomes.flush()
    scene.restarted().attempt(1)
    scene.go(70)
    assert scene.results() == [Result.OFFERED]
    scene.go(76)  # a quarter of a minute later than one's own
    assert scene.results() == [Result.OFFERED, Result.LOST]
    assert scene.requests() == ASKED
    assert scene.restarted().requests() == ASKED


def test_forged_reviews_leave_no_done_and_one_offer(scene: Scene) -> None:
    for n in range(500):
        scene.ask(scene.pod(name=f"ghost-{n}"), uid=f"forged-{n}")
    scene.go(61)
    assert scene.results() == [Result.OFFERED, Result.LOST]


def test_dry_runs_leave_nothing_not_even_a_try(scene: Scene) -> None:
    for n in range(20):
        scene.ask(uid=f"dry-{n}", dryRun=True)
    scene.go(61)
    assert scene.results() == []
    assert scene.requests() == GIVEN


def test_a_pod_with_a_note_of_an_offer_that_nobody_made_is_no_act_of_ours(scene: Scene) -> None:
    scene.see(AdmissionNote("0123456789abcdef", (AmountsBefore("c", BEFORE),)), "web-1-a", 2)
    scene.go(3)
    assert scene.results() == []


def test_a_pod_that_was_there_before_the_offer_is_not_of_it(scene: Scene) -> None:
    scene.go(600)
    note = scene.attempt()
    scene.see(note, "web-1-a", 601, created=at(300))
    scene.go(602)
    assert scene.results() == [Result.OFFERED]


def test_a_pod_that_came_with_other_amounts_was_not_given_ours(scene: Scene) -> None:
    note = scene.attempt()
    scene.see(note, "web-1-a", 2, containers=(ContainerSeen("c", BEFORE),))
    scene.go(3)
    assert scene.results() == [Result.OFFERED, Result.REFUSED]
    assert scene.finished()[-1].detail is OutcomeDetail.MOVED


def test_a_second_call_for_the_same_pod_keeps_what_its_owner_asked_for(scene: Scene) -> None:
    """Another webhook adds a sidecar to the pod that we patched, and the API server asks again."""
    once = admission_manifests.applied(scene.pod(), admission_manifests.operations({"response": scene.ask(scene.pod())}))
    once["spec"]["containers"].append(admission_manifests.container("sidecar"))
    scene.recommend(turn=1, cpu=0.4)
    scene.view.catch_up()
    again = admission_manifests.applied(once, admission_manifests.operations({"response": scene.ask(once, uid="u-2")}))
    note = json.loads(again["metadata"]["annotations"]["ullage/admission"])
    assert again["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "400m"
    assert note["before"] == {"c": {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {}}}


def test_a_pod_whose_annotations_leave_no_room_for_the_note_is_left_as_it_is(scene: Scene) -> None:
    pod = scene.pod(annotations={"big": "x" * (256 * 1024 - 60)})
    answer = scene.ask(pod)
    assert "patch" not in answer
    assert "its annotations would be longer than 262144 bytes" in answer["warnings"][0]


def test_the_topmost_controller_need_not_be_the_direct_one(scene: Scene) -> None:
    body = json.dumps(admission_manifests.review(scene.pod())).encode()
    review = scene.admission.judge(body, web)
    assert review.admitted is not None
    assert review.admitted.controller == "ReplicaSet/web-1"


def test_two_webhooks_conclude_the_same_of_a_pod_when_one_had_read_a_newer_recommendation(scene: Scene) -> None:
    first = scene.attempt()
    scene.outcomes.flush()
    scene.recommend(turn=1)
    scene.view.catch_up()
    second = scene.attempt(1)
    assert first is not None
    assert second is not None
    assert first.offer != second.offer, "the amounts are the same, and the recommendations that say them are not"
    scene.see(second, "web-1-a", 2)
    scene.go(3)
    scene.restarted().go(4)
    [done] = _of(scene.finished(), Result.DONE)
    newer = [outcome for outcome in _of(scene.finished(), Result.OFFERED) if outcome.decision == done.decision]
    assert [outcome.admitted.offer for outcome in newer if outcome.admitted] == [second.offer]


@pytest.mark.parametrize("containers", [(ContainerSeen("c", AFTER),), (ContainerSeen("c", BEFORE),)])
def test_two_webhooks_say_the_same_of_a_pod_that_one_knew_only_at_a_later_report(
    scene: Scene, containers: tuple[ContainerSeen, ...]
) -> None:
    note = scene.attempt()
    scene.outcomes.flush()
    [offered] = scene.finished()
    first, second = Offers(CLUSTER), Offers(CLUSTER)
    created = at(0).replace(microsecond=0) - timedelta(seconds=1)
    seen = PodChanged(at(2), WEB, POD, PodPhase.PENDING, created, containers, controller="ReplicaSet/web-1", admitted=note)
    again, place = replace(seen, at=at(9)), Place("pods", 0, 1)
    first.make(offered, ())
    for report in (seen, again):
        first.apply(report, place, ())
    known_late: tuple[Event, ...] = (seen, offered, again)
    for event in known_late:
        second.apply(event, place, ())
    [(said, _)] = first.conclude()
    assert [outcome for outcome, _ in second.conclude()] == [said]
    later = Offers(CLUSTER)
    an_hour_later: tuple[Event, ...] = (offered, said, SourceReported(at(3600), CLUSTER, "kube", ("pod-changes",)))
    for event in an_hour_later:
        later.apply(event, place, ())
    assert not later.is_overdue(at(3600)), "it came, so it is not lost, even for who never saw it"


def test_two_webhooks_say_the_same_of_a_pod_that_was_resized_before_one_of_them_read_its_offer(scene: Scene) -> None:
    note = scene.attempt()
    scene.outcomes.flush()
    [offered] = scene.finished()
    created = at(1).replace(microsecond=0)
    seen = PodChanged(at(2), WEB, POD, PodPhase.PENDING, created, (ContainerSeen("c", AFTER),), controller="ReplicaSet/web-1")
    seen = replace(seen, admitted=note)
    resized, place = replace(seen, at=at(9), containers=(ContainerSeen("c", BEFORE),)), Place("pods", 0, 1)
    in_order: tuple[Event, ...] = (offered, seen, resized)
    said = []
    for events in (in_order, (seen, resized, offered), (seen, offered, resized)):
        offers = Offers(CLUSTER)
        for event in events:
            offers.apply(event, place, ())
        said.append([outcome for outcome, _ in offers.conclude()])
    assert [outcome.result for outcome in said[0]] == [Result.DONE]
    assert said[1:] == [said[0], said[0]]


def test_who_sees_a_pod_an_hour_later_with_other_amounts_says_nothing_of_those_with_which_it_came(scene: Scene) -> None:
    note = scene.attempt()
    scene.outcomes.flush()
    after = scene.restarted()
    after.see(note, "web-1-a", 3600, created=at(1).replace(microsecond=0), containers=(ContainerSeen("c", BEFORE),))
    after.go(3601)
    assert after.results() == [Result.OFFERED]


def test_a_webhook_that_has_fallen_behind_calls_no_offer_lost_whose_pod_it_has_not_read_yet(scene: Scene) -> None:
    """It reads that time went on and the source was at work, and the pod with the next look at the log."""
    note = scene.attempt(0)
    scene.attempt(1)
    scene.answer_controller()
    scene.see(note, "web-1-a", 2)
    whole, pods = scene.log.poll, NAMES.wire("pod-changes-by-cluster")
    scene.log.poll = lambda positions, **more: whole({place: at for place, at in positions.items() if place[0] != pods}, **more)
    scene.go(120)
    assert scene.results() == [Result.OFFERED]
    scene.log.poll = whole
    scene.go(121)
    assert scene.results() == [Result.OFFERED, Result.DONE]
