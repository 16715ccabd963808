"""A hostile ConfigMap of priorities through the whole kube source, threads and all: a sentence each, and the source goes on."""

import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import structlog.testing

from agents.logic.nodes.growth import expanders
from agents.logic.nodes.growth.expanders import PrioritiesError
from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.facts.nodes import ExpanderPrioritiesGone, ExpanderPrioritiesSeen
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.list_watch_requests import ListWatchClient
from streams.codec.event_codec import Codec
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.kube.kube_source import SourceOptions
from streams.sources.kube.watch.watched_resources import PrioritiesMap
from streams.sources.kube.watch_threads import WatchThreads
from streams.topics import TOPICS, Topics
from tests.support.cost_in_steps import steps
from tests.support.kube_objects import START
from tests.support.scripted_api import ScriptedApi, line, listed, stream

MAP = PrioritiesMap("kube-system", "cluster-autoscaler-priority-expander")
GOOD = "10: [a.*]"
ENDLESS = ("(a+)+$", "(a|aa)+$", "(.*)*x", ".*.*.*x", "(?:a{99}){99}", "a{0,99}a{0,99}a{0,99}b")
MERGES = "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))
BAD = (
    ("- a", "are no map"),
    ("10: [[a]]", "a pattern is no text"),
    ("10: 7", "are no list"),
    (MERGES, "have a merge"),
    ("[" * 65_000, "nested too deeply"),
    ("1: [" + "a," * 32_000 + "]", "more than 16000 characters"),
    (f"1: [{'a' * (64 << 10)}]", "characters; 65536 are the most"),
    (f"1: [{'a, ' * (300 << 10)}]", "characters; 65536 are the most"),
)


def config(version: int, data: object, uid: str = "first") -> dict[str, object]:
    meta = {"name": MAP.name, "namespace": MAP.namespace, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "data": data}


def priorities(version: int, text: str, uid: str = "first") -> dict[str, object]:
    return config(version, {"priorities": text}, uid)


def script() -> ScriptedApi:
    """The ConfigMap is bad in each way in turn, of types that no server takes, then gone, made anew, and good."""
    bad = [line("MODIFIED", priorities(2 + number, text)) for number, (text, _) in enumerate(BAD[1:])]
    wrong = [line("MODIFIED", config(20 + number, data)) for number, data in enumerate((7, ["a"], {"priorities": 7}))]
    endless = line("MODIFIED", priorities(30, json.dumps({number: [one] for number, one in enumerate(ENDLESS)})))
    gone, anew = line("DELETED", priorities(31, "- a")), line("ADDED", priorities(32, "- a", "second"))
    replies = [
        listed(priorities(1, BAD[0][0]), version="1"),
        stream(*bad, *wrong, endless, gone, anew),
        stream(line("MODIFIED", priorities(33, GOOD, "second"))),
    ]
    return ScriptedApi(replies, path=f"/api/v1/namespaces/{MAP.namespace}/configmaps")


def facts_of(log: MemoryLog, topics: Topics) -> list[ExpanderPrioritiesSeen | ExpanderPrioritiesGone]:
    records = log.poll({(topics.wire("scheduling-changes"), 0): 0})
    found = [Codec(topics).decode(record) for record in records]
    return [each for each in found if isinstance(each, ExpanderPrioritiesSeen | ExpanderPrioritiesGone)]


def run_until(threads: WatchThreads, enough: Callable[[], bool]) -> None:
    """The command's own loop, until `enough` or a minute has gone by."""
    stop, end = threading.Event(), time.monotonic() + 60.0

    def after() -> None:
        if enough() or time.monotonic() > end:
            stop.set()

    threads.run(stop, after=after)


def test_each_bad_config_map_is_a_sentence_and_the_good_one_after_them_arrives() -> None:
    topics, log = Topics(partitions=1), MemoryLog()
    for topic in TOPICS:
        log.create(topics.wire(topic.name), 1)
    ticks = iter(range(1_000_000))
    options = SourceOptions(lambda: START + timedelta(milliseconds=next(ticks)), nodes=True, priorities=MAP)
    with script().serving() as server, structlog.testing.capture_logs() as lines:
        api = Api(cluster_factory.connection(ClusterSettings(url=server.url)), timeout=Seconds(30.0))
        watching = ListWatchClient(api, stream_timeout=Seconds(30.0))
        threads = WatchThreads(api, LogContext.of(log, topics, "real"), options, list_watch=watching)
        run_until(threads, lambda: any(getattr(each, "patterns", {}) == {"10": ("a.*",)} for each in facts_of(log, topics)))
    *bad, endless, gone, anew, good = facts_of(log, topics)
    assert len(bad) == len(BAD)
    for fact, (_, says) in zip(bad, BAD, strict=True):
        assert isinstance(fact, ExpanderPrioritiesSeen)
        assert (fact.patterns, says in fact.unsupported) == ({}, True), fact.unsupported
    assert isinstance(endless, ExpanderPrioritiesSeen)
    assert tuple(one for (one,) in endless.patterns.values()) == ENDLESS  # as written: the stage refuses them
    assert all(map(refused, ENDLESS))
    assert isinstance(gone, ExpanderPrioritiesGone)
    assert isinstance(anew, ExpanderPrioritiesSeen)
    assert "are no map" in anew.unsupported
    assert isinstance(good, ExpanderPrioritiesSeen)
    assert (good.patterns, good.unsupported) == ({"10": ("a.*",)}, "")
    unreadable = [each for each in lines if each["event"] == "an object cannot be read"]
    assert len(unreadable) == 3  # those of types that no server takes


def refused(pattern: str) -> bool:
    try:
        expanders.read_priorities({"1": [pattern]})
    except PrioritiesError as error:
        return "could take for ever" in str(error)
    return False


def test_the_largest_config_map_is_read_in_bounded_steps() -> None:
    from streams.clients.kube.scheduling_objects import ConfigMapObject
    from streams.sources.kube.publish import priority_config_map
    from tests.support.kube_objects import decoded

    for text in (MERGES, "1: [" + "a," * 7_900 + "]", "1: [" + "a," * 32_000 + "]"):
        found = decoded(ConfigMapObject, priorities(1, text))
        assert steps(partial(priority_config_map.seen, found, "real", START)) < 2_000_000
