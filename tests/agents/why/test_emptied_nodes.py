"""Which acts emptied a node: all of them are found by a reader of a log that serves one search at a time."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from agents.why import node_decisions
from schemas.decision_subjects import Subject
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import ResizePlanned
from schemas.names import PodName
from schemas.outcomes import Action, ActionFinished, Result
from streams.log.log_port import Record
from tests.support import examples

[REMOVAL] = [event for event in examples.EVENTS if isinstance(event, NodeRemovalPlanned)][:1]
[RESIZE] = [event for event in examples.EVENTS if isinstance(event, ResizePlanned)][:1]
PODS = [PodName("shop", f"cart-{number}", f"uid-{number}") for number in range(4)]


def test_every_resize_that_was_done_is_found_though_a_search_ends_the_one_before_it() -> None:
    at = REMOVAL.at - timedelta(minutes=30)
    plans = [replace(RESIZE, id=f"updater/0/1/resize/{pod.uid}", at=at, pod=pod) for pod in PODS]
    results = [Result.DONE, Result.DONE, Result.EXPIRED, Result.DONE]
    outcomes = [
        ActionFinished(f"{plan.id}/resize", at, plan.id, Action.RESIZE, result, "", Subject.of_pod(examples.CART, plan.pod))
        for plan, result in zip(plans, results, strict=True)
    ]
    events: dict[str, list[Any]] = {"pod-updates": [*plans], "outcomes": [*outcomes]}
    searches: list[str] = []

    def mentioning(text: str, topic: str, **_since: Any) -> Iterator[Record]:
        searches.append(topic)
        mine = len(searches)
        for offset, event in enumerate(events.get(topic, ())):
            if len(searches) > mine:
                return
            yield Record(topic, 0, offset, b"", f'"{text}" {event}'.encode(), ())

    def decode(record: Record) -> Any:
        return events[record.topic][record.offset]

    found = node_decisions.places(replace(REMOVAL, evict=tuple(PODS)), mentioning, decode, lambda _ident: None)
    assert [place.offset for place in found] == [0, 1, 3]
    assert searches.count("outcomes") == searches.count("pod-updates") == 1
