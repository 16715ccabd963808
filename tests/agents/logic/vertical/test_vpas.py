"""The recommender with VPA objects: which usage is theirs, what they ask for, and what happens as pods come, go and change."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from agents.logic.stage_rules import StageRules
from agents.logic.usage.pod_index import met
from agents.logic.vertical.estimate_rules import cap
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas import plain_json
from schemas.facts.pods import ContainerSeen, PodDeleted, PodPhase
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, SavedHistogram
from schemas.names import Amounts, PodName
from schemas.policies.control import StageRulesChanged, rules_version
from schemas.policies.vertical import ContainerMode, ContainerPolicy, Tuning, UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa import Operator, Requirement, VpaRemoved
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, scrape, turn, vpa, when

HALF_GIB = 500 * 2**20
DAY = 24 * 60 * MINUTE
APP = {"app": "api"}


def open_stage(**changed: Any) -> Any:
    return Recommender(replace(VerticalSettings(bounds_step=0.0), **changed), 0)


def run(stage: Any, minutes: int = 3, start: int = START, *, rows: Any = None, **first: Any) -> Any:
    """Minutes of steady usage; `first` is what the first turn holds besides. What was said last."""
    last = None
    for minute in range(minutes):
        number = start + minute * MINUTE
        inputs = first if minute == 0 else {}
        every = rows or [(API.key, "a", "app", 0.1, HALF_GIB)]
        decided = stage.step(turn(number, pod_metrics=[scrape(number, every)], **inputs))
        last = decided[0].event if decided else last
    return last


def targets(event: Any) -> Any:
    return {c.container: c.target for c in event.containers}


def aggregates(stage: Any) -> Any:
    return sorted(key[1:] for key in stage.usage.aggregates.keys())  # noqa: SIM118  # rows, not a dict


def test_a_vpa_gets_the_worked_numbers_and_is_named_in_the_reasons() -> None:
    said = run(open_stage(), policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])
    assert targets(said) == {"app": Amounts(0.126, 628694953)}
    assert said.because["policy"]["vpa"] == "demo/web/api"
    assert said.because["policy"]["version"] == "api@1"
    assert said.pods == 1


def test_a_new_label_set_makes_a_new_aggregate_and_the_vpa_adds_them_up() -> None:
    stage = open_stage()
    run(stage, 3, policies=[vpa()], pod_changes=[pod("a", START, labels={**APP, "hash": "1"})])
    later = START + 3 * MINUTE
    said = run(stage, 3, later, pod_changes=[pod("a", later, labels={**APP, "hash": "2"})])
    assert aggregates(stage) == [("app", "app=api,hash=1"), ("app", "app=api,hash=2")]
    assert said.because["containers"]["app"]["samples"] in (4, 5, 6)  # when it was looked at last
    done = stage.step(turn(START + DAY))[0].event.because["containers"]["app"]
    assert (done["samples"], done["first"], done["last"]) == (6, "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z")


def test_usage_under_labels_that_the_selector_does_not_match_is_not_the_vpas() -> None:
    pods = [pod("a", START, labels=APP), pod("b", START, labels={"app": "canary"})]
    rows = [(API.key, "a", "app", 0.1, HALF_GIB), (API.key, "b", "app", 9.0, 8 * GIB)]
    assert targets(run(open_stage(), rows=rows, policies=[vpa()], pod_changes=pods)) == {"app": Amounts(0.126, 628694953)}
    without = run(open_stage(), rows=rows, pod_changes=pods)
    assert targets(without)["app"].cpu > 9.0


def test_an_init_container_never_counts_even_when_its_usage_came_before_its_pod() -> None:
    rows = [(API.key, "a", "app", 0.1, HALF_GIB), (API.key, "a", "migrate", 4.0, 4 * GIB)]
    told = pod("a", START, labels=APP, init_containers=(ContainerSeen("migrate"),))
    stage = open_stage()
    assert set(targets(run(stage, rows=rows, policies=[vpa()], pod_changes=[told]))) == {"app"}
    late = open_stage()
    assert set(targets(run(late, rows=rows, policies=[vpa()]))) == {"app", "migrate"}
    assert set(targets(run(late, 3, START + 3 * MINUTE, rows=rows, pod_changes=[told]))) == {"app"}
    assert [name for name, _ in aggregates(late)] == ["app", "app"]  # before its pod was known, and since


def test_usage_of_a_pod_that_is_not_known_yet_counts_unless_the_setting_says_otherwise() -> None:
    assert targets(run(open_stage(), policies=[vpa()])) == {"app": Amounts(0.126, 628694953)}
    strict = open_stage(unknown_pods=False)
    assert run(strict, policies=[vpa()]) is None
    later = START + 3 * MINUTE
    assert run(strict, 3, later, pod_changes=[pod("a", later, labels=APP)]) is not None


def test_the_memory_saver_holds_nothing_of_workloads_without_a_policy() -> None:
    stage = open_stage(memory_saver=True)
    assert run(stage, pod_changes=[pod("a", START, labels=APP)]) is None
    assert len(stage.usage.containers) == 0
    later = START + 3 * MINUTE
    assert run(stage, 3, later, policies=[vpa(at=when(later))]) is not None


def test_a_container_with_mode_off_gets_nothing_and_leaves_the_minimum_to_the_others() -> None:
    rows = [(API.key, "a", name, 0.001, 2**20) for name in ("app", "side")]
    seen = (ContainerSeen("app"), ContainerSeen("side"))
    told = pod("a", START, labels=APP, containers=seen)
    both = run(open_stage(), rows=rows, policies=[vpa()], pod_changes=[told])
    assert targets(both) == {"app": Amounts(0.012, 131072000), "side": Amounts(0.012, 131072000)}
    off = vpa(containers=(ContainerPolicy("side", mode=ContainerMode.OFF),))
    assert targets(run(open_stage(), rows=rows, policies=[off], pod_changes=[told])) == {"app": Amounts(0.025, 262144000)}


OFF = {"containers": (ContainerPolicy("*", mode=ContainerMode.OFF),)}
NOTHING = {"containers": (ContainerPolicy("*", controlled_resources=()),)}
ELSEWHERE = {"selector": (Requirement("app", Operator.IN, ("none",)),)}


@pytest.mark.parametrize("changed", [OFF, NOTHING, ELSEWHERE])
def test_that_nothing_is_recommended_any_more_is_said_once_with_the_policy_that_says_so(changed: Any) -> None:
    stage, rows = open_stage(), [(API.key, "a", "app", 0.1, HALF_GIB)]
    assert targets(run(stage, rows=rows, policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])) != {}
    said = []
    for minute in range(3, 130):
        number = START + minute * MINUTE
        policies = [vpa(at=when(number), generation=2, **changed)] if minute == 3 else []
        said += stage.step(turn(number, pod_metrics=[scrape(number, rows)], policies=policies))
    assert [(each.topic, each.event.containers) for each in said] == [("recommendations", ()), ("recommendations-by-cluster", ())]
    assert said[0].event == said[1].event
    assert said[0].event.because["containers"] == {}
    again = START + 130 * MINUTE
    assert targets(run(stage, 3, again, rows=rows, policies=[vpa(at=when(again), generation=3)])) != {}


def test_what_expired_is_taken_back_once_and_what_was_never_said_is_not() -> None:
    stage = open_stage()
    run(stage, policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])
    assert [each.event.containers for each in stage.step(turn(START + 9 * DAY))] == [(), ()]
    assert stage.step(turn(START + 10 * DAY)) == []
    silent = open_stage()
    assert run(silent, policies=[vpa(**OFF)], pod_changes=[pod("a", START, labels=APP)]) is None
    assert silent.step(turn(START + 9 * DAY)) == []


def test_a_container_that_goes_takes_nothing_back_while_another_is_recommended() -> None:
    stage, both = open_stage(), [(API.key, "a", name, 0.1, HALF_GIB) for name in ("app", "side")]
    told = pod("a", START, labels=APP, containers=(ContainerSeen("app"), ContainerSeen("side")))
    assert set(targets(run(stage, rows=both, policies=[vpa()], pod_changes=[told]))) == {"app", "side"}
    for day in range(1, 11):
        last = run(stage, 1, START + day * DAY, rows=both[:1])
        assert "app" in targets(last)
    assert set(targets(last)) == {"app"}


def test_only_controlled_resources_are_recommended() -> None:
    only = vpa(containers=(ContainerPolicy("*", controlled_resources=("cpu",)),))
    [container] = run(open_stage(), policies=[only]).containers
    nothing = Amounts(container.target.cpu, None)
    assert container.target == nothing == container.uncapped
    assert (container.lower.memory, container.upper.memory) == (None, None)
    assert run(open_stage(), policies=[vpa(containers=(ContainerPolicy("*", controlled_resources=()),))]) is None


def test_what_was_never_sampled_is_recommended_only_as_upstream_does_if_asked() -> None:
    told = {"policies": [vpa()], "pod_changes": [pod("a", START, labels=APP)]}
    for seen, expected in ((False, None), (True, {"app": Amounts(0.025, 262144000)})):
        stage = open_stage(recommend_unseen=seen)
        decided = stage.step(turn(START, **told))
        assert (targets(decided[0].event) if decided else None) == expected


def test_a_global_maximum_fills_in_what_a_policy_leaves_open() -> None:
    capped = vpa(containers=(ContainerPolicy("*", max_allowed=Amounts(0.04, None)),))
    stage = open_stage(maximum_cpu=0.03, maximum_memory=30 * 2**20)
    [container] = run(stage, policies=[capped]).containers
    assert container.target == Amounts(0.04, 30 * 2**20)
    assert container.uncapped == Amounts(0.126, 628694953)


def test_lower_target_and_upper_are_each_bounded_and_uncapped_is_not() -> None:
    # lower/target/upper 31/42/53 with a minimum of 50 -> 50/50/53, with a maximum of 40 -> 31/40/40
    nothing = np.full(3, np.nan)
    three = np.array([31.0, 42.0, 53.0])
    assert cap(three, np.full(3, 50.0), nothing).tolist() == [50, 50, 53]
    assert cap(three, nothing, np.full(3, 40.0)).tolist() == [31, 40, 40]


def test_cpu_comes_in_whole_cores_where_an_annotation_asks_and_the_setting_allows() -> None:
    asked = vpa(annotations={"vpa-post-processor.kubernetes.io/app_integerCPU": "true"})
    for allowed, cpu in ((True, 1.0), (False, 0.126)):
        [container] = run(open_stage(integer_cpu=allowed), policies=[asked]).containers
        assert (container.target.cpu, container.uncapped.cpu) == (cpu, cpu)


def test_a_policy_tunes_percentile_margin_and_minimum_of_its_containers_alone() -> None:
    tuned = ContainerPolicy("app", tuning=Tuning(margin=0.5, minimum=Amounts(0.4, None)))
    [container] = run(open_stage(), policies=[vpa(containers=(tuned,))]).containers
    # 546691264 + int(546691264 * 0.5) = 820036896; 110 m + 55 m lie below the minimum of 400 m
    assert container.target == Amounts(0.4, 820036896)
    told = vpa(annotations={"ullage/*.margin": "0.5", "ullage/app.minimum_cpu": "0.4"})
    assert run(open_stage(), policies=[told]).containers[0].target == Amounts(0.4, 820036896)
    assert run(open_stage(per_vpa=False), policies=[told]).containers[0].target == Amounts(0.126, 628694953)


def test_the_reasons_have_each_number_at_its_name_and_what_differs_from_the_settings() -> None:
    tuning = Tuning(margin=0.5, minimum=Amounts(0.4, None), target_cpu_percentile=0.5)
    bounds = (Amounts(0.01, None), Amounts(7.0, 10**9))
    tuned = (ContainerPolicy("app", *bounds, tuning=tuning),)
    rows = [(API.key, "a", name, 0.1, HALF_GIB) for name in ("app", "side")]
    said = run(open_stage(), 31, rows=rows, policies=[vpa(containers=tuned)])
    because = said.because
    assert because.text == plain_json.dumps(dict(because))
    app, side = because["containers"]["app"], because["containers"]["side"]
    assert (app["margin"], app["samples"], side["samples"]) == (0.5, 31, 31)
    assert (app["cpu"]["min_allowed"], app["cpu"]["max_allowed"], app["memory"]["max_allowed"]) == (0.01, 7.0, 10**9)
    assert (app["cpu"]["minimum"], side["cpu"]["minimum"]) == (0.4, 0.012)  # two containers share a pod's 25 m
    assert app["cpu"]["shares"] == {"lower": 0.5, "target": 0.5, "upper": 0.95}
    assert "min_allowed" not in app["memory"]
    assert side.keys() == {"samples", "first", "last", "cpu", "memory"}
    for name, resource in ((name, resource) for name in (app, side) for resource in ("cpu", "memory")):
        part, upper = name[resource], 0.1103 if resource == "cpu" else 546691265
        assert part["percentiles"]["lower"] <= part["percentiles"]["target"] <= part["percentiles"]["upper"] <= upper
        assert part["reached"]["0.1"] <= part["reached"]["0.01"] <= (0.1 if resource == "cpu" else HALF_GIB)
        assert part["confidence"] == pytest.approx(30 / 1440)


def test_a_removed_setting_is_the_default_again() -> None:
    stage = open_stage()
    killed = ContainerOOMKilled(when(START), API, PodName("web", "a", "u"), "app", 1, 1000 * 2**20, None)  # type: ignore[arg-type]
    run(stage, policies=[vpa(containers=(ContainerPolicy("*", oom_ratio=2.0, memory_window=3600.0),))])
    stage.step(turn(START + 4 * MINUTE, policies=[vpa(generation=2)], oom_events=[killed]))
    row = stage.usage.aggregates.find((API.key, "app", "?"))
    assert stage.usage.aggregates.floats("window")[row] == 86_400
    peak = stage.usage.containers.floats("killed")[0]
    assert peak == 1200 * 2**20  # 1.2 times 1000 MiB, no longer twice


def test_a_shorter_half_life_keeps_what_samples_weigh_at_the_moment_of_the_change() -> None:
    stage = open_stage()
    run(stage, 3)
    row = stage.usage.aggregates.find((API.key, "app", "?"))
    now = START / 1000 + 180

    def weight() -> float:
        cpu = stage.usage.cpu
        return float(cpu.total[row] * 2 ** ((cpu.reference[row] - now) / cpu.half_life[row]))

    before = weight()
    tuned = ContainerPolicy("*", tuning=Tuning(cpu_half_life=3600.0))
    stage.step(turn(START + 3 * MINUTE, policies=[vpa(containers=(tuned,))]))
    assert stage.usage.cpu.half_life[row] == 3600
    assert weight() == pytest.approx(before)


def test_a_workload_with_a_vpa_of_another_recommender_is_recommended_for_within_its_bounds_and_says_whose_it_is() -> None:
    least = (ContainerPolicy("*", min_allowed=Amounts(2.0, None)),)
    said = run(open_stage(), policies=[vpa(recommenders=("theirs",), containers=least)])
    assert (said.other_recommender, targets(said)["app"].cpu) == ("theirs", 2.0)
    assert run(open_stage(), policies=[vpa(recommenders=("theirs",)), VerticalPolicyChanged(when(START), "*", "1")]) is not None
    assert run(open_stage(recommender="theirs"), policies=[vpa(recommenders=("theirs",))]).other_recommender == ""
    assert run(open_stage(recommender="theirs"), policies=[vpa()]).other_recommender == "default"


def test_a_vpa_handed_to_another_recommender_and_back_is_said_at_once() -> None:
    stage = open_stage(bounds_step=9.0)
    run(stage, policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])
    for minute, names in ((3, ("theirs",)), (4, ())):
        number = START + minute * MINUTE
        said = stage.step(turn(number, policies=[vpa(at=when(number), generation=minute, recommenders=names)]))
        assert [each.event.other_recommender for each in said] == ["".join(names)] * 2


@pytest.mark.parametrize("kept", [True, False], ids=["all but the name stays", "the name stays"])
def test_vpas_are_judged_again_by_new_rules(kept: bool) -> None:
    """Also where a program before this one left them judged by an old name: each program publishes its rules anew."""
    stage, later = open_stage(), START + 3 * MINUTE
    assert run(stage, policies=[vpa(recommenders=("theirs",))]).other_recommender == "theirs"
    if not kept:
        stage.policies.recommender = "theirs"
        stage._own = stage.settings = replace(stage.settings, recommender="theirs")
        stage.rules = StageRules("recommender", stage.settings)
    rules = asdict(replace(stage.settings, recommender="theirs"))
    changed = StageRulesChanged(when(later), "recommender", 2, rules, rules_version("recommender", 2, rules))
    said = stage.step(turn(later, rules=[changed]))
    assert [each.event.other_recommender for each in said] == ["", ""]
    assert stage.policies.of(API.key).policy.update_mode is not UpdateMode.OFF


def test_of_two_vpas_on_a_workload_the_older_governs_then_the_smaller_name() -> None:
    young = vpa(name="a", created=when(START + 1), containers=(ContainerPolicy("*", max_allowed=Amounts(0.05, None)),))
    old = vpa(name="z", containers=(ContainerPolicy("*", max_allowed=Amounts(0.06, None)),))
    twin = vpa(name="y", containers=(ContainerPolicy("*", max_allowed=Amounts(0.07, None)),))
    assert targets(run(open_stage(), policies=[young, old]))["app"].cpu == 0.06
    stage = open_stage()
    assert targets(run(stage, policies=[young, old, twin]))["app"].cpu == 0.07
    later = START + 3 * MINUTE
    gone = VpaRemoved(when(later), "demo", "web", "y")
    assert targets(run(stage, 3, later, policies=[gone]))["app"].cpu == 0.06
    off = replace(twin, created=when(START - 1), update_mode=UpdateMode.OFF)
    assert targets(run(stage, 3, later + 3 * MINUTE, policies=[off]))["app"].cpu == 0.06


def test_a_change_of_nothing_but_the_status_changes_no_policy() -> None:
    stage = open_stage()
    run(stage, 3, policies=[vpa(resource_version="1")])
    held = stage.policies.of(API.key)
    stage.step(turn(START + 4 * MINUTE, policies=[vpa(at=when(START + 4 * MINUTE), resource_version="2")]))
    assert stage.policies.of(API.key) is held


def test_an_unsupported_vpa_governs_nothing() -> None:
    odd = vpa(
        selector=None, unsupported="the target is owned by Deployment 'x'", containers=(ContainerPolicy("*", Amounts(9.0)),)
    )
    said = run(open_stage(), policies=[odd])
    assert said.because["policy"] is None
    assert targets(said) == {"app": Amounts(0.126, 628694953)}


def test_pods_that_come_and_go_altogether_are_said_at_once() -> None:
    stage = open_stage()
    run(stage, 3, policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])
    number = START + 3 * MINUTE + 1
    gone = PodDeleted(when(number), API, PodName("web", "a", "uid-a"))
    [said, _] = stage.step(turn(number, pod_changes=[gone]))
    assert said.event.pods == 0
    [said, _] = stage.step(turn(number + 1, pod_changes=[pod("b", number, labels=APP)]))
    assert said.event.pods == 1


def test_a_pod_deleted_and_made_again_under_its_name_in_one_turn_is_there() -> None:
    stage = open_stage()
    run(stage, 1, policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])
    number = START + MINUTE
    events = [
        PodDeleted(when(number), API, PodName("web", "a", "uid-a")),
        pod("a", number, labels=APP, pod=PodName("web", "a", "2")),
    ]
    stage.step(turn(number, pod_changes=events))
    assert stage.intake.pods.get(API.key, "a").uid == "2"
    assert len(stage.usage.containers) == 1


def test_a_pending_pod_counts_for_nothing_yet() -> None:
    stage = open_stage(recommend_unseen=True)
    stage.step(turn(START, policies=[vpa()], pod_changes=[pod("a", START, labels=APP, phase=PodPhase.PENDING)]))
    assert stage.intake.count(API.key) == 0
    assert len(stage.usage.aggregates) == 0


def checkpoint(**changed: Any) -> CheckpointSeen:
    """Half a core and a gibibyte, a sample a minute for eight days."""
    cpu, memory = SavedHistogram(START / 1000, 800.0, {"25": 10000}), SavedHistogram(START / 1000, 8.0, {"37": 10000})
    fields: Any = {"version": "v3", "first": START / 1000 - 691_200, "last": START / 1000, "count": 11_521}
    return CheckpointSeen(when(START), API, "api", "app", **{**fields, "cpu": cpu, "memory": memory, **changed})


def test_a_checkpoint_is_history_beside_the_live_usage_and_is_loaded_once() -> None:
    stage = open_stage()
    told = {"policies": [vpa()], "pod_changes": [checkpoint(), checkpoint(count=5), pod("a", START, labels=APP)]}
    said = run(stage, 3, **told)
    # half a core weighs 80 of 80.3: percentile 0.9 is bucket 25, 511 m + 76 m
    assert said.containers[0].target.cpu == 0.587
    assert said.because["containers"]["app"]["first"] == "2025-12-24T00:00:00Z"
    stage.step(turn(START + DAY))
    assert stage.usage.aggregates.whole("count")[stage.usage.aggregates.find((API.key, "app", "checkpoint:api"))] == 11_521


@pytest.mark.parametrize("hours", [0, 3])
def test_a_vpa_whose_target_cannot_be_read_for_a_while_loses_nothing_that_is_known(hours: int) -> None:
    """autoscaler#9891: the history of a checkpoint was thrown away then, and memory fell to what was used since the start."""
    stage, hour = open_stage(), 60 * MINUTE
    before = targets(run(stage, 3, policies=[vpa()], pod_changes=[checkpoint(), pod("a", START, labels=APP)]))
    assert before["app"].memory > GIB
    unread = vpa(at=when(START + hour), selector=None, unsupported="its target cannot be read now")
    run(stage, 3, START + hour, policies=[unread])
    after = targets(run(stage, 3, START + (2 + hours) * hour, policies=[vpa(at=when(START + (2 + hours) * hour))]))
    assert after["app"].memory == before["app"].memory


def test_a_checkpoint_of_another_vpa_or_another_version_is_no_history() -> None:
    for odd in (checkpoint(version="v2"), replace(checkpoint(), vpa="old")):
        said = run(open_stage(), policies=[vpa()], pod_changes=[odd])
        assert said.containers[0].target.cpu == 0.126


def test_a_checkpoints_history_goes_when_its_container_is_long_gone() -> None:
    stage = open_stage()
    stage.step(turn(START, policies=[vpa()], pod_changes=[checkpoint()]))
    stage.step(turn(START + 8 * DAY - 60 * MINUTE))
    assert aggregates(stage) == [("app", "checkpoint:api")]
    stage.step(turn(START + 8 * DAY))
    assert aggregates(stage) == []


@pytest.mark.parametrize(("windows", "days", "left"), [(8, 7, 1), (8, 8, 0), (4, 4, 0)])
def test_an_aggregate_lives_so_many_windows_after_its_last_cpu_sample(windows: int, days: int, left: int) -> None:
    stage = open_stage(memory_windows=windows)
    run(stage, 1, policies=[vpa()], pod_changes=[pod("a", START, labels=APP)])
    stage.step(turn(START + days * DAY))
    assert len(stage.usage.aggregates) == left


def test_an_aggregate_without_samples_goes_with_its_pod_at_the_next_hour() -> None:
    stage = open_stage()
    stage.step(turn(START, pod_changes=[pod("a", START, labels=APP)]))
    stage.step(turn(START + 61 * MINUTE))
    assert len(stage.usage.aggregates) == 1
    stage.step(turn(START + 62 * MINUTE, pod_changes=[PodDeleted(when(START), API, PodName("web", "a", "uid-a"))]))
    assert len(stage.usage.aggregates) == 1  # looked at once in an hour
    stage.step(turn(START + 122 * MINUTE))
    assert len(stage.usage.aggregates) == 0


def test_a_finished_pods_aggregate_stays_while_the_controller_of_its_vpa_lives() -> None:
    done = pod("a", START, labels=APP, phase=PodPhase.SUCCEEDED)
    for policies, left in (([vpa()], 1), ([], 0)):
        stage = open_stage()
        stage.step(turn(START, policies=policies, pod_changes=[done]))
        stage.step(turn(START + 61 * MINUTE))
        assert len(stage.usage.aggregates) == left


def test_a_selectors_words_mean_what_they_mean_in_kubernetes() -> None:
    labels = {"app": "api", "tier": "web"}
    cases = [
        (Requirement("app", Operator.IN, ("api", "x")), True),
        (Requirement("app", Operator.NOT_IN, ("api",)), False),
        (Requirement("other", Operator.NOT_IN, ("api",)), True),
        (Requirement("tier", Operator.EXISTS), True),
        (Requirement("other", Operator.EXISTS), False),
        (Requirement("other", Operator.DOES_NOT_EXIST), True),
        (Requirement("app", Operator.DOES_NOT_EXIST), False),
    ]
    assert [met((requirement,), labels) for requirement, _ in cases] == [expected for _, expected in cases]
    assert met((), {})
