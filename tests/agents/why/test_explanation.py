"""From an action back to its causes, with places and numbers; and a plain word where the log no longer holds them."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from agents.run.stage_runner import Runner
from agents.why.explanation import Explanation, explain
from agents.why.explanation_lines import lines
from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.names import Place, PodName
from schemas.outcomes import Action, ActionFinished, Result, StatusWritten
from schemas.policies.control import StageRulesChanged, rules_version
from streams.codec import event_codec
from streams.codec.event_codec import header
from streams.errors import BadInput
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from tests.support.small_pipeline import START, START_MS, TILL, WEB, PipelineLog, scrape, stages
from tests.support.status_scene import START as SCENE_START
from tests.support.status_scene import StatusScene, said, vpa


@pytest.fixture
def bench() -> PipelineLog:
    """Three minutes; each scrape record holds a row of both workloads, in WEB's partition. Evictions answer a minute later."""
    bench = PipelineLog()
    runner = Runner(stages(), LogContext(bench.log, bench.topics, bench.codec))
    for minute in (1, 2, 3):
        event = scrape(minute, [(WEB, 0.25 * minute, minute << 20), (TILL, 9, 9 << 20)])
        partition = bench.topics.partition_of(WEB.key)
        bench.log.append([bench.codec.encode(event, topic="pod-metrics", key=WEB.key, partition=partition, source="/s")])
        bench.tick(minute)
        runner.run()
    return bench


def plan_id(minute: int) -> str:
    return f"evictor/1/{START_MS + minute * 60_000}/evict/{WEB.key}"


def ask(bench: PipelineLog, asked: str) -> Explanation:
    return explain(LogContext(bench.log, bench.topics, bench.codec), asked)


def answer(bench: PipelineLog, minute: int) -> ActionFinished:
    pod = PodName("shop", "web-0", "uid-web")
    at = START + timedelta(minutes=minute, seconds=5)
    subject = Subject.of_pod(WEB, pod)
    outcome = ActionFinished(f"{plan_id(minute)}/evict/u", at, plan_id(minute), Action.EVICT, Result.DONE, "gone", subject)
    record = bench.codec.encode(outcome, topic="outcomes", key="demo", partition=1, source="/ullage/evictor")
    bench.log.append([record, record])
    return outcome


def test_an_eviction_leads_to_the_recommendation_and_on_to_the_samples(bench: PipelineLog) -> None:
    chain = ask(bench, plan_id(3))
    assert (chain.decision.what, chain.decision.numbers["pod"], chain.decision.because["count"]) == (
        "eviction planned",
        "web-0",
        4,
    )
    (recommendation,) = chain.decision.causes
    assert recommendation.what == "requests recommended"
    assert recommendation.at == START + timedelta(minutes=2)
    assert recommendation.numbers["target"] == {"main": "750m / 2.0 MiB"}  # 0.25 + 0.50 cores; the higher of 1 and 2 MiB
    (sample,) = recommendation.causes
    assert sample.place == Place("ullage.pod-metrics.v1", bench.topics.partition_of(WEB.key), 1)
    assert sample.numbers == {"rows": 1, "of": WEB.key, "highest cpu": "500m", "highest memory": "2.0 MiB"}


def test_a_pod_is_explained_by_its_newest_update_whether_by_name_path_or_uid(bench: PipelineLog) -> None:
    newest = ask(bench, plan_id(3)).decision
    for asked in ("web-0", "shop/web-0", "uid-web"):
        assert ask(bench, asked).decision == newest


def test_an_outcome_leads_to_its_decision_and_is_told_once_however_often_it_was_written(bench: PipelineLog) -> None:
    outcome = answer(bench, 3)
    chain = ask(bench, outcome.id)
    assert chain.decision == ask(bench, plan_id(3)).decision
    assert [step.numbers["result"] for step in chain.outcomes] == ["done"]


def admission(bench: PipelineLog, minute: int, name: str, uid: str, at: float) -> ActionFinished:
    """Of a pod of WEB, which follows from the recommendation of this minute."""
    decision = f"adder/{bench.topics.partition_of(WEB.key)}/{START_MS + minute * 60_000}/recommended/{WEB.key}"
    when = START + timedelta(minutes=minute, seconds=at)
    subject = Subject.of_pod(WEB, PodName("shop", name, ""))
    outcome = ActionFinished(f"{decision}/patch/{uid}", when, decision, Action.PATCH, Result.DONE, f"given {uid}", subject)
    bench.log.append([bench.codec.encode(outcome, topic="outcomes", key="demo", partition=1, source="/ullage/consumer/patch")])
    return outcome


def test_a_pod_that_was_only_admitted_is_explained_by_what_it_was_given_then(bench: PipelineLog) -> None:
    first = admission(bench, 2, "api-7f9c-%", "one", 5)
    admission(bench, 2, "api-7f9c-%", "two", 20)
    admission(bench, 3, "api-7f9c-%", "three", 5)
    admission(bench, 3, "api-%", "of another ReplicaSet", 6)
    pod = PodChanged(first.at, WEB, PodName("shop", "api-7f9c-x2b4c", "u"), PodPhase.RUNNING, first.at + timedelta(seconds=1), ())
    bench.log.append([bench.codec.encode(pod, topic="pod-changes-by-cluster", key="demo", partition=1, source="/s")])
    for asked in ("api-7f9c-x2b4c", "shop/api-7f9c-x2b4c"):
        chain = ask(bench, asked)
        assert (chain.decision.what, chain.decision.at) == ("requests recommended", START + timedelta(minutes=2))
        assert [step.numbers["reason"] for step in chain.outcomes] == ["given one"]
    newest = ask(bench, "shop/api-7f9c-zzzzz")  # no source has published it
    assert [step.numbers["reason"] for step in newest.outcomes] == ["given three"]
    for unlike in ("api-7f9c-aeiou", "api-7f9c-x2b4c5", "till/api-7f9c-x2b4c"):
        with pytest.raises(BadInput, match="has the id, pod, VPA, node, node group or workload"):
            ask(bench, unlike)


def test_a_long_beginning_of_a_name_is_cut_as_the_api_server_cuts_it(bench: PipelineLog) -> None:
    start = "a" * 70
    admission(bench, 2, f"{start}-%", "one", 5)
    assert [step.numbers["reason"] for step in ask(bench, f"shop/{start[:58]}x2b4c").outcomes] == ["given one"]


def test_a_pod_that_had_its_name_when_it_was_admitted_is_explained_by_it(bench: PipelineLog) -> None:
    admission(bench, 2, "db-0", "one", 5)
    assert [step.numbers["reason"] for step in ask(bench, "shop/db-0").outcomes] == ["given one"]


def test_where_retention_took_a_cause_the_chain_says_so_with_the_offset(bench: PipelineLog) -> None:
    partition = bench.topics.partition_of(WEB.key)
    bench.log.truncate("ullage.pod-metrics.v1", partition, 2)
    (recommendation,) = ask(bench, plan_id(3)).decision.causes
    (sample,) = recommendation.causes
    assert sample.gone == "is no longer kept: retention cut this partition at offset 2"


def test_the_text_is_a_tree_that_ends_with_what_became_of_it(bench: PipelineLog) -> None:
    said = list(lines(ask(bench, plan_id(3))))
    recommendation = f"adder/{bench.topics.partition_of(WEB.key)}/{START_MS + 2 * 60_000}/recommended/{WEB.key}"
    assert said[0] == "2026-01-01 00:03:00  eviction planned: pod web-0  [ullage.pod-updates.v1:1:3]"
    assert said[1:3] == ["│  · count: 4", f"│  · recommendation: {recommendation}"]
    assert said[3].startswith(
        "└─ 2026-01-01 00:02:00  requests recommended: workload demo/shop/Deployment/web, target (main 750m"
    )
    assert said[4:6] == ["   │  · factor: 1", "   │  · samples: 2"]
    assert said[6].startswith("   └─ 2026-01-01 00:02:00  usage scraped: rows 1, of demo/shop/Deployment/web, highest cpu 500m")
    assert said[7:] == ["no outcome yet: no consumer has finished with it"]
    answer(bench, 3)
    assert list(lines(ask(bench, plan_id(3))))[7].startswith(
        "then: 2026-01-01 00:03:05  action finished: action evict, result done"
    )


def test_of_many_causes_the_latest_of_each_topic_are_shown_and_the_rest_is_counted() -> None:
    bench = PipelineLog()
    runner = Runner(stages(), LogContext(bench.log, bench.topics, bench.codec))
    for second in range(10):
        bench.log.append(bench.metrics(1, (WEB, second, 1)))
    bench.tick(1)
    runner.run()
    partition = bench.topics.partition_of(WEB.key)
    plain = bench.all_records("recommendations")[0]
    kill = bench.oom(1, WEB, 1)
    bench.log.append([kill])
    cause = [Place(kill.topic, partition, 0), *(Place("ullage.pod-metrics.v1", partition, n) for n in range(10))]
    headers = dict(plain.headers) | {
        "ce_id": b"evictor/1/7/evict/wide",
        "cause": json.dumps([str(place) for place in cause]).encode(),
    }
    bench.log.append([NewRecord(plain.topic, plain.partition, plain.key, plain.value, tuple(headers.items()))])
    chain = ask(bench, "evictor/1/7/evict/wide")
    assert [step.place.offset for step in chain.decision.causes] == [0, 4, 5, 6, 7, 8, 9]
    assert chain.decision.causes[0].what == "container OOM-killed"
    assert chain.decision.more == 4
    assert list(lines(chain))[-1] == "└─ and 4 more records"


def test_nothing_found_is_a_sentence_that_names_what_was_asked_and_what_is_kept(bench: PipelineLog) -> None:
    with pytest.raises(
        BadInput,
        match=r"no decision in the log has the id, .* or workload 'nobody'$",
    ):
        ask(bench, "nobody")
    bench.log.truncate("ullage.pod-updates.v1", 1, 2)
    with pytest.raises(BadInput, match=r"gone from this log: (parts|all) of pod-updates|gone from this log: pod-updates before"):
        ask(bench, plan_id(2))


@pytest.mark.parametrize("asked", [WEB.key, "shop/Deployment/web", "shop/web", "web"])
def test_a_workload_is_explained_by_its_newest_recommendation(bench: PipelineLog, asked: str) -> None:
    chain = ask(bench, asked)
    assert (chain.decision.what, chain.decision.at) == ("requests recommended", START + timedelta(minutes=3))
    assert chain.decision.numbers["workload"] == WEB.key


def test_what_nobody_carries_out_is_not_said_to_wait_for_an_outcome(bench: PipelineLog) -> None:
    (record, *_) = (r for r in bench.all_records("pod-updates") if not event_codec.is_of_a_clock(r))
    plan = bench.codec.decode(record)
    assert isinstance(plan, EvictionPlanned)
    refusal = UpdateRefused("evictor/1/1/refuse-budget/x", plan.at, plan.workload, plan.pod, "budget", "it is used up", {})
    bench.log.append([bench.codec.encode(refusal, topic="pod-updates", key="demo", partition=1, source="/s")])
    waiting = "no outcome yet: no consumer has finished with it"
    assert waiting in list(lines(ask(bench, plan.id)))
    assert waiting not in list(lines(ask(bench, refusal.id)))
    assert waiting not in list(lines(ask(bench, "shop/web")))  # a recommendation


def test_a_name_that_two_workloads_have_is_asked_back(bench: PipelineLog) -> None:
    (record, *_) = (r for r in bench.all_records("recommendations") if not event_codec.is_of_a_clock(r))
    event = bench.codec.decode(record)
    assert isinstance(event, RequestsRecommended)
    other = replace(event, workload=replace(event.workload, namespace="other"))
    bench.log.append([bench.codec.encode(other, topic="recommendations", key=other.workload.key, partition=0, source="/s")])
    with pytest.raises(BadInput, match=f"may be any of demo/other/Deployment/{event.workload.name}, demo/shop/Deployment/"):
        ask(bench, event.workload.name)


@pytest.mark.parametrize("topic", ["ullage.pod-metrics.v1", "pod-metrics"])
def test_any_place_in_the_log_can_be_asked_for(bench: PipelineLog, topic: str) -> None:
    partition = bench.topics.partition_of(WEB.key)
    chain = ask(bench, f"{topic}:{partition}:2")
    assert (chain.decision.what, chain.decision.place) == ("usage scraped", Place("ullage.pod-metrics.v1", partition, 2))
    assert list(lines(chain))[-1].endswith(f"[ullage.pod-metrics.v1:{partition}:2]")  # a fact waits for no outcome
    decision = ask(bench, plan_id(3)).decision
    assert ask(bench, str(decision.place)).decision == decision


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("pod-metrics:1:999", "the record at 'ullage.pod-metrics.v1:1:999' does not exist: this partition ends at offset 0"),
        ("nothing:0:1", "there is no topic 'nothing'; there are "),
        ("clock:0:1", "the record at 'ullage.clock.v1:0:1' is a tick of the clock"),
    ],
)
def test_a_place_where_nothing_can_be_explained_is_a_sentence(bench: PipelineLog, place: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        ask(bench, place)
    assert str(caught.value).startswith(said)


def test_in_full_a_recommendation_has_its_bounds_and_every_digit() -> None:
    bench = PipelineLog()
    event = scrape(1, [(WEB, 1 / 3, 123_456_789)])
    partition = bench.topics.partition_of(WEB.key)
    bench.log.append([bench.codec.encode(event, topic="pod-metrics", key=WEB.key, partition=partition, source="/s")])
    bench.tick(1)
    Runner(stages(factor=1 / 7), LogContext(bench.log, bench.topics, bench.codec)).run()
    said = list(lines(ask(bench, WEB.key), full=True))
    each = f"(cpu {1 / 3 / 7!r}, memory 123456789)"
    assert [line for line in said if "· main " in line] == [
        f"│  · main {name}: {each}" for name in ("lower", "target", "upper", "uncapped")
    ]
    assert f"│  · factor: {1 / 7!r}" in said
    assert f"      · highest cpu: {1 / 3!r}" in said
    assert "      · highest memory: 123456789.0" in said


@pytest.mark.parametrize("asked", ["shop/web", "demo/shop/web/status/7"])
def test_a_vpa_or_a_write_of_its_status_leads_to_what_it_shows(bench: PipelineLog, asked: str) -> None:
    place = ask(bench, plan_id(3)).decision.causes[0].place
    (record,) = bench.log.poll({(place.topic, place.partition): place.offset}, limit=1)
    decision = header(record, "ce_id")
    assert decision is not None
    for number, says in ((6, "recommender/1/1/requests/x"), (7, decision)):
        event = StatusWritten(f"demo/shop/web/status/{number}", START, "demo", "shop", "web", says, Result.DONE, "as asked")
        bench.log.append([bench.codec.encode(event, topic="outcomes", key="demo", partition=1, source="/s")])
    chain = ask(bench, asked)
    assert chain.decision.at == START + timedelta(minutes=2)
    assert [(step.what, step.numbers["vpa"]) for step in chain.outcomes] == [("status of a VPA written", "shop/web")]


def test_a_vpa_leads_to_its_newest_conditions_and_on_to_the_recommendation_and_the_object() -> None:
    scene = StatusScene()
    scene.say(vpa(), said())
    scene.decide()
    scene.say(said(turn=SCENE_START + 2, cpu=200))
    scene.decide()
    context = LogContext(scene.log, scene.topics, scene.codec)
    chain = explain(context, "web/api")
    assert chain.decision.what == "conditions of a VPA decided"
    assert chain.decision.numbers["conditions"] == {
        "ConfigUnsupported": "False",
        "NoPodsMatched": "False",
        "RecommendationProvided": "True",
    }
    assert chain.decision.numbers["target"] == {"app": "200m / 500.0 MiB"}
    assert [cause.what for cause in chain.decision.causes] == ["requests recommended", "VPA set"]
    text = list(lines(chain))
    assert "│  · target: demo/web/Deployment/api" in text
    assert "│  · pods: 2" in text
    assert explain(context, scene.decisions()[0].id).decision.numbers["target"] == {"app": "100m / 500.0 MiB"}


def test_a_log_that_is_older_than_a_topic_is_searched_all_the_same(bench: PipelineLog) -> None:
    old = MemoryLog()
    for topic in ("pod-updates", "recommendations", "outcomes"):
        wire = bench.topics.wire(topic)
        old.create(wire, bench.topics.partitions)
        old.import_records([r for p in range(bench.topics.partitions) for r in bench.log.poll({(wire, p): 0})])
    chain = explain(LogContext(old, bench.topics, bench.codec), "web-0")
    assert chain.decision.what == "eviction planned"
    with pytest.raises(BadInput, match="has the id, pod, VPA, node, node group or workload 'nobody'"):
        explain(LogContext(old, bench.topics, bench.codec), "nobody")


def test_of_a_log_without_topics_it_is_said_what_to_do(bench: PipelineLog) -> None:
    with pytest.raises(BadInput, match=r"none of Ullage's topics.*make them with `ullage topics apply`"):
        explain(LogContext(MemoryLog(), bench.topics, bench.codec), "web-0")


class Published:
    """What sources published, and nothing decided."""

    def __init__(self) -> None:
        self.bench = PipelineLog()

    def say(self, topic: str, *events: Event) -> None:
        records = [self.bench.codec.encode(e, topic=topic, key="demo", partition=1, source="/s") for e in events]
        self.bench.log.append(records)

    def told(self, asked: str) -> str:
        with pytest.raises(BadInput) as raised:
            ask(self.bench, asked)
        return str(raised.value)


def test_a_pod_never_changed_and_a_workload_without_figures_name_the_commands_that_say_more() -> None:
    published = Published()
    pod = PodChanged(START, WEB, PodName("shop", "web-0", "u"), PodPhase.RUNNING, START, ())
    published.say("pod-changes-by-cluster", pod)
    for asked in ("shop/web-0", "web-0", "u"):
        assert "`ullage why-not shop/web-0` says what holds it back" in published.told(asked)
    name = f"{WEB.namespace}/{WEB.kind}/{WEB.name}"
    said = published.told(name)
    assert f"nothing is recommended for '{WEB.key}' yet, which has 1 pod:" in said
    assert f"`ullage why-not workload {name}`" in said
    published.say("pod-changes-by-cluster", PodDeleted(START + timedelta(seconds=1), WEB, pod.pod))
    assert f"pod 'shop/web-0' of {name} is gone" in published.told("web-0")
    assert published.told("shop/web-1").startswith("no decision in the log has")


def test_a_vpa_about_which_nothing_was_decided_says_whose_it_is_or_why_it_cannot_be_served() -> None:
    published = Published()
    published.say("policies", vpa(recommenders=("theirs",)))
    said = published.told("web/api")
    assert "served by the recommender 'theirs', and ours is 'default'" in said
    assert "`ullage why web/Deployment/api`" in said
    rules = {"recommender": "theirs"}
    published.say("rules", StageRulesChanged(START, "recommender", 2, rules, rules_version("recommender", 2, rules)))
    assert "nothing was decided about VPA 'web/api' yet" in published.told("web/api")
    later = vpa(recommenders=("theirs",), unsupported="its target is a Job", at=START + timedelta(days=9000))
    published.say("policies", later)
    assert published.told("web/api") == "VPA 'web/api' cannot be served: its target is a Job"
