"""The facts that the updater reads: each can be withdrawn, and a source that restarts reads back those of its namespaces only."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.facts import update_facts
from schemas.facts.update_facts import CHANGED, ObjectChanged, ObjectRemoved
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing import published_state
from streams.sources.kube.publish.publisher import Publisher
from streams.topics import TOPICS, Topics
from tests.support.examples import EVENTS

FACTS = [event for event in EVENTS if isinstance(event, ObjectChanged)]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_a_fact_is_withdrawn_under_the_name_by_which_it_was_published(fact: ObjectChanged) -> None:
    gone = update_facts.removal(fact, later := fact.at + timedelta(hours=1))
    assert CHANGED[type(gone)] is type(fact)
    assert (gone.at, gone.cluster, update_facts.object_name(gone)) == (later, fact.cluster, update_facts.object_name(fact))


@pytest.fixture
def append() -> tuple[LogContext, Callable[[ObjectChanged | ObjectRemoved], None]]:
    log, topics = MemoryLog(), Topics(partitions=2)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), 2)
    context = LogContext.of(log, topics, "prod")
    publisher = Publisher(context)

    def append(fact: ObjectChanged | ObjectRemoved) -> None:
        publisher.publish_for_updates(fact)
        log.append(publisher.drain())

    return context, append


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_a_source_reads_back_what_stands_and_forgets_the_namespaces_that_it_does_not_watch(
    fact: ObjectChanged, append: tuple[LogContext, Callable[[ObjectChanged | ObjectRemoved], None]]
) -> None:
    context, write = append
    elsewhere = replace(fact, namespace="elsewhere")
    for each in (fact, elsewhere, replace(fact, cluster="another")):
        write(each)
    state = published_state.read_pods(context)
    assert list(state.published_for_updates(type(fact)).values()) == [fact, elsewhere]
    state.keep_namespaces(["elsewhere"])
    assert list(state.published_for_updates(type(fact)).values()) == [elsewhere]
    write(update_facts.removal(fact, fact.at))
    assert list(published_state.read_pods(context).published_for_updates(type(fact)).values()) == [elsewhere]
