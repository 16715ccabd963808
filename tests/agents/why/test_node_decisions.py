"""Why a node stays or goes, why a group grows, and why a pod waits: found by their names, back to the facts."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from agents.why import because_texts
from agents.why.explanation import Explanation, explain
from schemas.catalogue import CATALOGUE, Event
from schemas.decisions.node_updates import ScaleUpPlanned
from schemas.names import Place
from schemas.outcomes import Action, ActionFinished, Result
from streams.errors import BadInput
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, joined, pod, shape

QUICK = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


class Kept:
    """A log that holds facts and what a scaler decided from them."""

    def __init__(self) -> None:
        self.topics = Topics(partitions=1)
        self.log = MemoryLog()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.context = LogContext.of(self.log, self.topics, CLUSTER)

    def keep(self, *events: Event, cause: Sequence[Place] = ()) -> None:
        for event in events:
            topic = CATALOGUE.of(type(event)).topics[0]
            record = self.context.codec.encode(event, topic=topic, key=CLUSTER, partition=0, source="/s", cause=cause)
            self.log.append([record])

    def why(self, asked: str) -> Explanation:
        return explain(self.context, asked)


def test_a_node_that_goes_is_explained_by_its_name_its_instance_and_with_numbers() -> None:
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), shape(), controller(), settings=QUICK)
    run.step(pod("p1", node="n1"), pod("p2", node="n2"))
    run.run(8.0)
    kept = Kept()
    kept.keep(*joined("n1"), *joined("n2"))
    kept.keep(*run.decided, cause=(Place("ullage.scheduling-changes.v1", 0, 0),))
    [gone] = run.removed
    found = kept.why(gone)
    assert found.decision.what == "removal of a node planned"
    assert found.decision.because["utilization"] == 0.2437
    assert found.decision.causes[0].what == "node changed"
    stays = kept.why({"n1": "n2", "n2": "n1"}[gone])
    assert stays.decision.what == "scaling refused"
    assert stays.decision.because["threshold"] == 0.5


def test_a_pod_that_waits_is_explained_by_the_growth_that_is_for_it_or_by_what_keeps_it_from_every_group() -> None:
    run = ScalerRun(group(), shape(), shape("huge", cpu=64_000))
    run.step(pod("web-0"), pod("huge-0", "huge"))
    run.run(30.0)
    kept = Kept()
    kept.keep(shape(), shape("huge", cpu=64_000), pod("web-0"), pod("huge-0", "huge"), *run.decided)
    assert kept.why("shop/web-0").decision.numbers["nodes"] == "0 to 1"
    kept.keep(pod("huge-1", "huge"))
    refused = kept.why("huge-1")  # what was said of huge-0 holds for every pod of its shape
    assert refused.decision.numbers["code"] == "NoGroupFits"


def test_a_group_is_explained_with_what_became_of_its_growth() -> None:
    run = ScalerRun(group(), shape())
    run.step(pod("web-0"))
    run.run(5.0)
    kept = Kept()
    [plan] = run.of(ScaleUpPlanned)
    at = when(START) + timedelta(seconds=9)
    kept.keep(*run.decided)
    kept.keep(ActionFinished(f"{plan.id}/scale-up/a", at, plan.id, Action.SCALE_UP, Result.DONE, "", plan.subject))
    assert [one.numbers["result"] for one in kept.why("a").outcomes] == ["done"]


def test_a_group_that_never_grew_is_explained_by_the_newest_removal_of_a_node_of_it() -> None:
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), shape(), controller(), settings=QUICK)
    run.step(pod("p1", node="n1"), pod("p2", node="n2"))
    run.run(8.0)
    kept = Kept()
    kept.keep(*run.decided)
    found = kept.why("a").decision
    assert (found.what, found.numbers["node"]) == ("removal of a node planned", run.removed[0])


def test_growth_says_what_a_new_node_has_with_units() -> None:
    run = ScalerRun(group(), shape())
    run.step(pod("web-0"))
    run.run(5.0)
    [plan] = run.of(ScaleUpPlanned)
    found = list(because_texts.in_words(plan.because))
    assert "a new node has: (cpu 4000m, memory 16.00 GiB, pods 110)" in found
    assert "what the group would be given: (nodes 1, pods 1, cpu 975m, memory 1.00 GiB)" in found


def test_a_pod_that_runs_is_not_explained_by_what_was_said_while_it_waited() -> None:
    run = ScalerRun(group(), shape())
    run.step(pod("web-0"))
    run.run(5.0)
    kept = Kept()
    kept.keep(pod("web-0"), *run.decided, pod("web-0", node="n1"))
    with pytest.raises(BadInput, match="has the id, pod, VPA, node, node group or workload"):
        kept.why("shop/web-0")
