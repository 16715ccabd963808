"""The conditions stage: one decision for each change, in any order of recommendations, and resumed as if never stopped."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.conditions import conditions_stage
from agents.logic.conditions.conditions_stage import VpaConditions
from agents.logic.guards.guard_records import GUARDS, GuardRecord, in_words
from agents.logic.stage_rules import StageRules
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas import times
from schemas.catalogue import Event
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, MemoryLimitFound, VpaConditionsDecided
from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.ids import DecisionId
from schemas.names import Amounts
from schemas.policies.control import StageRulesChanged, rules_version
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.units import Bytes
from tests.support.cluster_events import turn
from tests.support.status_scene import AT, HOUR, START, gone, pod, said, vpa

HALF_HOUR = 1_800_000
NAMES, TARGETS = ("a", "b"), ("x", "y")
BEGINNING = "container 'app' is OOM-killed again and again and gets no more memory: "


def open_stage(partition_of: Callable[[str], int] = lambda _: 0) -> VpaConditions:
    return VpaConditions(StageRules("recommender", VerticalSettings()), 0, partition_of)


def topic(event: Event) -> str:
    match event:
        case VpaChanged() | VpaRemoved():
            return "policies"
        case StageRulesChanged() | VerticalPolicyChanged() | VerticalPolicyRemoved():
            return "rules"
        case SourceReported():
            return "cluster-changes"
        case UpdateRefused() | ResizePlanned():
            return "pod-updates"
        case _:
            return "pod-changes-by-cluster" if hasattr(event, "pod") else "recommendations-by-cluster"


def killed(name: str, target: str, minute: int) -> PodChanged:
    """A pod whose only container was OOM-killed then."""
    run = ContainerRun(AT + timedelta(minutes=minute), reason=OOM_KILLED)
    return replace(pod(name, target), containers=(ContainerSeen("app", last_run=run),))


def ended(target: str, minute: int, memory: int | None = None, phase: PodPhase = PodPhase.FAILED) -> PodChanged:
    """A pod of its own that ended then, by an OOM kill or well; `memory` is what it had, in bytes."""
    at = AT + timedelta(minutes=minute)
    run = ContainerRun(at, reason=OOM_KILLED if phase is PodPhase.FAILED else "Completed")
    seen = ContainerSeen("app", Amounts(None, Bytes(memory) if memory else None), last_run=run)
    return replace(pod(f"p-{minute}", target), phase=phase, containers=(seen,), created=at - timedelta(minutes=1))


def decided(stage: VpaConditions, number: int, *events: Event) -> list[Event]:
    inputs: dict[str, list[Event]] = {}
    for event in events:
        inputs.setdefault(topic(event).replace("-", "_"), []).append(event)
    return [decided.event for decided in stage.step(turn(number, **inputs))]


def step(stage: VpaConditions, number: int, *events: Event) -> list[VpaConditionsDecided]:
    """What is decided about VPAs."""
    return [event for event in decided(stage, number, *events) if isinstance(event, VpaConditionsDecided)]


def limits(stage: VpaConditions, number: int, *events: Event) -> list[tuple[str, str]]:
    """What is said of workloads without a VPA: which, and the reason; empty where it is over."""
    found = [event for event in decided(stage, number, *events) if isinstance(event, MemoryLimitFound)]
    assert all(event.over == (not event.reason) for event in found)
    return [(event.workload.name, event.reason) for event in found]


def statuses(decision: VpaConditionsDecided) -> dict[str, str]:
    return {each.type.value: each.status.value for each in decision.conditions}


def test_a_decision_names_its_object_its_recommendation_and_the_places_it_rests_on() -> None:
    [decided] = open_stage().step(turn(START, policies=[vpa()], recommendations_by_cluster=[said()]))
    event = decided.event
    assert isinstance(event, VpaConditionsDecided)
    assert (decided.topic, decided.key, event.id) == (
        "vpa-conditions",
        "demo/web/api",
        f"conditions/0/{START}/conditions/demo/web/api",
    )
    assert (event.uid, event.generation, event.recommendation, event.containers) == ("u1", 1, said().id, said().containers)
    assert statuses(event) == {"ConfigUnsupported": "False", "NoPodsMatched": "False", "RecommendationProvided": "True"}
    assert [place.topic for place in decided.cause] == ["ullage.recommendations-by-cluster.v1", "ullage.policies.v1"]
    assert event.because == {"target": "demo/web/Deployment/api", "pods": 2}


def unsupported(decisions: Sequence[VpaConditionsDecided]) -> dict[str, str]:
    return {each.name: each.conditions[0].message for each in decisions if not each.withdrawn}


def test_of_many_vpas_on_one_target_only_the_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions_stage, "MOST_ON_ONE_TARGET", 3)
    stage = open_stage()
    rivals = [vpa(f"v{n}", uid=f"u{n}", created=AT + timedelta(seconds=n)) for n in range(6)]
    first = unsupported(step(stage, START, *rivals))
    crowded = "More than 100 VPAs have the targetRef 'Deployment/api'; this one is not among the oldest and is not looked at"
    governed = "The targetRef 'Deployment/api' is governed by the VPA 'web/{}' already"
    assert first == {
        "v0": "",
        **dict.fromkeys(("v1", "v2"), governed.format("v0")),
        **dict.fromkeys(("v3", "v4", "v5"), crowded),
    }
    after = unsupported(step(stage, START + 1, VpaRemoved(AT, "demo", "web", "v0")))
    assert {name: after[name] for name in ("v1", "v2", "v3")} == {"v1": "", **dict.fromkeys(("v2", "v3"), governed.format("v1"))}
    assert not after.keys() & {"v4", "v5"}, "those beyond the bound are not looked at again"
    oldest = vpa("old", uid="u", created=AT - timedelta(days=1))
    again = unsupported(step(stage, START + 2, oldest))
    assert again == {"old": "", **dict.fromkeys(("v1", "v2"), governed.format("old")), "v3": crowded}


def test_nothing_new_is_no_decision() -> None:
    stage = open_stage()
    assert len(step(stage, START, vpa(), said())) == 1
    for beat in range(1, 5):
        assert step(stage, START + beat * HOUR, vpa(resource_version=str(beat)), said(turn=START + beat * HOUR)) == []


def test_an_object_that_goes_or_changes_hands_is_withdrawn_once() -> None:
    stage = open_stage()
    step(stage, START, vpa(), vpa("late", uid="u2", target="other"))
    [gone_away] = step(stage, START + 1, VpaRemoved(AT, "demo", "web", "api"))
    [handed_over] = step(stage, START + 2, vpa("late", uid="u2", target="other", recommenders=("theirs",)))
    assert [(each.key, each.uid, each.withdrawn) for each in (gone_away, handed_over)] == [
        ("demo/web/api", "u1", True),
        ("demo/web/late", "u2", True),
    ]
    assert step(stage, START + 3, VpaRemoved(AT, "demo", "web", "late"), said()) == []


def test_an_object_made_anew_has_times_of_its_own() -> None:
    stage = open_stage()
    step(stage, START, vpa(), said())
    [decision] = step(stage, START + HOUR, VpaRemoved(AT, "demo", "web", "api"), vpa(uid="u2"))
    assert {each.since for each in decision.conditions} == {decision.at}
    assert statuses(decision)["RecommendationProvided"] == "True"  # the recommender stands by it


def test_a_partition_decides_about_its_own_clusters_alone() -> None:
    foreign = replace(vpa(), cluster="elsewhere")
    stage = open_stage(lambda key: 0 if key.startswith("demo") else 1)
    assert [each.key for each in step(stage, START, foreign, vpa())] == ["demo/web/api"]
    assert step(stage, START + 1, SourceReported(AT, "elsewhere", "kube", ()), VpaRemoved(AT, "elsewhere", "web", "api")) == []


def test_a_status_says_that_no_source_sees_the_pods_any_more_and_when_one_does_again() -> None:
    stage, kube, minute = open_stage(), SourceReported(AT, "demo", "kube", ("pod-changes",)), 60_000
    [first] = step(stage, START, vpa(), pod("p", "api"), kube)
    assert ConditionType.FACTS_OUTDATED not in {each.type for each in first.conditions}
    assert step(stage, START + 10 * minute) == []
    [outdated] = step(stage, START + 11 * minute, replace(kube, sees=("oom-events",)))
    said_last = outdated.conditions[-1]
    assert (said_last.type, said_last.status) == (ConditionType.FACTS_OUTDATED, ConditionStatus.TRUE)
    seen = times.rfc3339(times.from_ms(START))
    assert said_last.message == f"No source has seen the pods since {seen}, so nothing is planned for them"
    assert step(stage, START + 12 * minute) == []
    [back] = step(stage, START + 13 * minute, kube)
    assert (back.conditions[-1].type, back.conditions[-1].status) == (ConditionType.FACTS_OUTDATED, ConditionStatus.FALSE)


def test_rules_of_the_log_name_the_recommender_and_its_heartbeat() -> None:
    stage = open_stage()
    step(stage, START, vpa(), said())
    rules = asdict(replace(VerticalSettings(), recommender="ullage"))
    [decision] = step(stage, START + 1, StageRulesChanged(AT, "recommender", 1, rules, rules_version("recommender", 1, rules)))
    assert decision.withdrawn
    [taken_up] = step(stage, START + 2, vpa(recommenders=("ullage",), generation=2))
    assert (taken_up.generation, taken_up.withdrawn) == (2, False)


def test_a_recommendation_that_is_not_decided_again_is_withdrawn_after_two_whole_heartbeats() -> None:
    stage = open_stage()
    step(stage, START, vpa(), pod("one"), said(), said("other"))
    decided = [step(stage, START + beat * HOUR + 1, said("other", turn=START + beat * HOUR)) for beat in (1, 2, 3)]
    assert decided == [[], [], []]
    [decision] = step(stage, START + 4 * HOUR, said("other", turn=START + 3 * HOUR + 500))
    assert (statuses(decision)["RecommendationProvided"], decision.containers) == ("False", ())


def test_until_two_heartbeats_were_read_absence_is_unknown() -> None:
    stage = open_stage()
    [first] = step(stage, START, vpa(), said("other"))
    assert (statuses(first)["RecommendationProvided"], first.containers) == ("Unknown", None)
    [second] = [
        each for beat in (1, 2, 3, 4) for each in step(stage, START + beat * HOUR + 1, said("other", turn=START + beat * HOUR))
    ]
    assert (statuses(second)["RecommendationProvided"], second.containers) == ("False", ())


def test_what_is_kept_of_workloads_does_not_grow_with_those_that_come_and_go() -> None:
    def size(beats: int) -> int:
        stage = open_stage()
        for beat in range(beats):
            number = START + beat * HOUR
            names = [f"job-{beat}-{n}" for n in range(20)]
            step(stage, number, *(vpa(name, target=name) for name in names), *(said(name, turn=number) for name in names))
            step(stage, number + 1, *(VpaRemoved(AT, "demo", "web", name) for name in names))
        dumps = map(stage.dump, stage.chunks())
        return sum(len(dump) for dump in dumps if dump != b"{}")  # without buckets that are empty now

    assert size(100) < 1.2 * size(10)


def test_a_workload_of_a_policy_of_ours_that_is_killed_in_a_loop_has_its_bound_told_once_and_its_end() -> None:
    stage, policy = open_stage(), VerticalPolicyChanged(AT, "demo/*", "1", UpdateMode.OFF)
    minute = 60_000
    assert limits(stage, START, policy, said("x"), killed("p", "x", 0)) == []
    [found] = decided(stage, START + 16 * minute, killed("p", "x", 16), said("x", turn=START + 16 * minute))
    assert isinstance(found, MemoryLimitFound)
    assert (found.id, found.since) == (f"conditions/0/{START + 16 * minute}/memory-limit/demo/web/Deployment/x", found.at)
    assert found.message.endswith("gets no more memory: the update mode 'Off' leaves running pods alone")
    assert found.because["policy"] == {"target": "demo/*", "version": "1", "place": f"ullage.rules.v1:0:{START // 1000}"}
    assert limits(stage, START + 20 * minute, killed("p", "x", 20)) == []
    again = VerticalPolicyChanged(AT, "demo/*", "2", UpdateMode.RECREATE)
    assert limits(stage, START + 21 * minute, again, said("x", turn=START + 21 * minute)) == [("x", "NotApplied")]
    assert limits(stage, START + 22 * minute, gone("p", "x")) == [("x", "")]


NIGHT = 24 * 60


def after(stage: VpaConditions, minute: int, *events: Event) -> list[tuple[str, str]]:
    return limits(stage, START + minute * 60_000, *events, said("x", turn=START + minute * 60_000))


def test_pods_that_end_by_their_kill_each_night_are_one_loop_until_a_night_is_left_out() -> None:
    stage = open_stage()
    assert after(stage, 0, VerticalPolicyChanged(AT, "demo/*", "1", UpdateMode.OFF), ended("x", 0)) == []
    assert after(stage, 1, gone("p-0", "x")) == []
    assert after(stage, NIGHT, ended("x", NIGHT)) == [("x", "UpdateMode")]
    assert after(stage, NIGHT + 1, gone(f"p-{NIGHT}", "x")) == []
    assert after(stage, 2 * NIGHT, ended("x", 2 * NIGHT)) == []
    assert after(stage, 4 * NIGHT - 1, pod("other", "y")) == []
    assert after(stage, 4 * NIGHT, ended("x", NIGHT), pod("other", "x")) == [("x", "")], "an old pod that is told again is old"


@pytest.mark.parametrize("answer", [ended("x", 40, 1 << 20), ended("x", 40, phase=PodPhase.SUCCEEDED)])
def test_a_pod_with_more_or_one_that_ends_well_ends_the_loop_of_those_before(answer: PodChanged) -> None:
    stage = open_stage()
    after(stage, 0, VerticalPolicyChanged(AT, "demo/*", "1", UpdateMode.OFF), ended("x", 0))
    assert after(stage, 20, ended("x", 20)) == [("x", "UpdateMode")]
    assert after(stage, 40, answer) == [("x", "")]


def test_of_pods_that_end_mode_initial_is_no_bound_and_one_kill_is_forgotten() -> None:
    stage = open_stage()
    after(stage, 0, VerticalPolicyChanged(AT, "demo/*", "1", UpdateMode.INITIAL), ended("x", 0), killed("q", "y", 0))
    assert after(stage, 20, ended("x", 20), killed("q", "y", 20), said("y")) == [("x", "NotApplied"), ("y", "UpdateMode")]
    assert len(stage.targets.ended) == 1
    after(stage, 16 * NIGHT, gone("p-0", "x"))
    assert len(stage.targets.ended) == 0


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_what_holds_back_a_killed_pod_is_named_as_everywhere_until_it_is_planned_for(guard: GuardRecord) -> None:
    def update(kind: type[UpdateRefused | ResizePlanned], name: str, **fields: Any) -> Any:
        of = pod(name, "x")
        return kind(id="u", at=AT, workload=of.workload, pod=of.pod, because={}, **fields)

    def message(number: int, *events: Event) -> str:
        [found] = [event for event in decided(stage, number, *events) if isinstance(event, MemoryLimitFound)]
        assert (found.reason, found.over) == ("NotApplied", False)
        return found.message.removeprefix("C" + BEGINNING[1:])

    stage, minute = open_stage(), 60_000
    policy = VerticalPolicyChanged(AT, "demo/*", "1", UpdateMode.RECREATE)
    decided(stage, START, policy, pod("healthy", "x"), killed("p", "x", 0), said("x"))
    reason = "why"
    if guard.name == "oom-bound":
        reason = f"{BEGINNING}guard 'quota' says: full"
    refused = update(UpdateRefused, "p", guard=guard.name, reason=reason)
    not_said = message(START + 16 * minute, killed("p", "x", 16), said("x", turn=START + 16 * minute))
    assert "the updater has not said why" in not_said
    assert not decided(stage, START + 17 * minute, update(UpdateRefused, "healthy", guard=guard.name, reason="of another"))
    # What the updater says of the loop itself begins as the condition does.
    told = f"more is recommended; {in_words(guard.name, reason)}".replace(BEGINNING, "")
    assert message(START + 18 * minute, refused) == told
    assert not decided(stage, START + 18 * minute + 1, killed("p", "x", 18)), "another kill changes nothing"
    planned = {"expires": AT, "requests": {}, "limits": {}, "expect": {}}
    assert not decided(stage, START + 19 * minute, update(ResizePlanned, "healthy", **planned))
    assert message(START + 20 * minute, update(ResizePlanned, "p", **planned)) == not_said
    decided(stage, START + 21 * minute, refused)
    decided(stage, START + 22 * minute, gone("p", "x"))
    assert not stage.targets.held, "nothing is kept of a workload without kills"


def test_what_a_vpa_says_of_itself_is_not_said_of_its_workload_and_what_nobody_governs_is_not_ours() -> None:
    stage, minute = open_stage(), 60_000
    loop = [(START, killed("p", "x", 0)), (START + 16 * minute, killed("p", "x", 16))]
    assert [limits(stage, number, kill) for number, kill in loop] == [[], []]
    policy = VerticalPolicyChanged(AT, "demo/web/*", "1", UpdateMode.OFF)
    assert limits(stage, START + 17 * minute, policy) == [("x", "UpdateMode")]
    assert limits(stage, START + 18 * minute, vpa(target="x"), pod("q", "x")) == [("x", "")]
    assert limits(stage, START + 19 * minute, VpaRemoved(AT, "demo", "web", "api"), pod("q", "x")) == [("x", "UpdateMode")]
    assert limits(stage, START + 20 * minute, VerticalPolicyRemoved(AT, "demo/web/*")) == [("x", "")]


def test_a_pod_that_another_controller_adopts_takes_its_kills_along() -> None:
    stage, minute = open_stage(), 60_000
    policy = VerticalPolicyChanged(AT, "demo/web/*", "1", UpdateMode.OFF)
    assert limits(stage, START, policy, killed("p", "x", 0)) == []
    assert limits(stage, START + 16 * minute, killed("p", "x", 16)) == [("x", "UpdateMode")]
    adopted = killed("p", "y", 16)
    assert limits(stage, START + 17 * minute, adopted) == [("x", ""), ("y", "UpdateMode")]
    resumed = open_stage()
    for chunk in stage.chunks():
        resumed.load(chunk, stage.dump(chunk))
    for each in (stage, resumed):
        assert limits(each, START + 18 * minute, gone("p", "y")) == [("y", "")]
        assert each.targets.killed() == []


events = st.lists(
    st.builds(
        vpa,
        st.sampled_from(NAMES),
        target=st.sampled_from(TARGETS),
        unsupported=st.sampled_from(["", "", "", "the target is gone"]),
        recommenders=st.sampled_from([(), (), ("default",), ("other",)]),
        generation=st.integers(1, 3),
    )
    | st.builds(VpaRemoved, st.just(AT), st.just("demo"), st.just("web"), st.sampled_from(NAMES))
    | st.builds(VerticalPolicyChanged, st.just(AT), st.just("demo/*"), st.just("1"), st.sampled_from(UpdateMode))
    | st.builds(VerticalPolicyRemoved, st.just(AT), st.just("demo/*"))
    | st.builds(pod, st.sampled_from("pq"), st.sampled_from(TARGETS))
    | st.builds(killed, st.sampled_from("pq"), st.sampled_from(TARGETS), st.sampled_from([-30, 0, 16, 60, 300]))
    | st.builds(gone, st.sampled_from("pq"), st.just("x"))
    | st.builds(ended, st.sampled_from(TARGETS), st.integers(-30, 300), st.none() | st.just(1 << 20), st.sampled_from(PodPhase))
    | st.builds(SourceReported, st.just(AT), st.just("demo"), st.just("kube"), st.sampled_from([(), ("pod-changes",)]))
    | st.builds(
        said,
        st.sampled_from(TARGETS),
        turn=st.integers(0, 12).map(lambda n: START + n * HALF_HOUR),
        pods=st.sampled_from([None, 0, 2]),
        cpu=st.sampled_from([100.0, 200.0]),
    ),
    max_size=12,
)


@given(st.lists(events, min_size=1, max_size=6), st.data())
def test_a_resumed_snapshot_is_as_if_it_had_never_stopped(turns: list[list[Event]], data: st.DataObject) -> None:
    stage, resumed = open_stage(), open_stage()
    chunks: dict[str, bytes] = {}
    for number, batch in enumerate(turns):
        assert decided(resumed, START + number * HOUR, *batch) == decided(stage, START + number * HOUR, *batch)
        chunks |= {chunk: resumed.dump(chunk) for chunk in resumed.take_dirty()}
        if data.draw(st.booleans()):
            resumed = open_stage()
            for chunk, dumped in sorted(chunks.items()):
                resumed.load(chunk, dumped)


@given(st.lists(events, min_size=1, max_size=4), st.data())
def test_the_order_of_recommendations_decides_nothing(turns: list[list[Event]], data: st.DataObject) -> None:
    """A worker that recovers publishes some again, and one that is believed dead may still write an old one.

    All of these say how many pods there are, and none is withdrawn, by the newest one, as long overdue: where nobody knows how
    many pods there are, what was decided about them before stays, and that depends on what came before.
    """
    objects = [event for batch in turns for event in batch if topic(event) != "recommendations-by-cluster"]
    recommended = {event.id: event for batch in turns for event in batch if topic(event) == "recommendations-by-cluster"}  # type: ignore[union-attr]  # it has one
    turns_of = {name: DecisionId.turn_of(name) for name in recommended}
    since = max(turns_of.values(), default=0) - HOUR
    in_order = [event for name, event in recommended.items() if event.pods is not None and turns_of[name] >= since]  # type: ignore[union-attr]  # it has them
    shuffled = data.draw(st.permutations([*in_order, *in_order[:2]]))

    def last(events: Sequence[Event]) -> dict[str, Any]:
        stage, newest = open_stage(), dict[str, Any]()
        for number, batch in enumerate(([*objects], *[[event] for event in events])):
            newest |= {
                each.key: (statuses(each), each.containers, each.withdrawn) for each in step(stage, START + number, *batch)
            }
        return newest

    assert last(shuffled) == last(in_order)


def test_a_vpa_in_mode_off_keeps_no_other_from_its_target_and_each_says_how_it_is() -> None:
    """autoscaler#10135: a dashboard's VPA in mode Off was the older one, and nobody changed the pods of the owner's."""
    stage = open_stage()
    shows = vpa("dashboard", uid="u0", created=AT - timedelta(days=1), update_mode=UpdateMode.OFF)
    governed = "The targetRef 'Deployment/api' is governed by the VPA 'web/{}' already"
    assert unsupported(step(stage, START, shows, vpa("owners", uid="u1"), said())) == {
        "dashboard": governed.format("owners"),
        "owners": "",
    }
    off = unsupported(step(stage, START + 1, vpa("owners", uid="u1", update_mode=UpdateMode.OFF)))
    assert off == {"dashboard": "", "owners": governed.format("dashboard")}
