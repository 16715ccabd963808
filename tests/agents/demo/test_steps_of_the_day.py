"""A simulated day in other steps than a minute: no source seems silent in between, and no new pod is given up too early."""

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise

from agents.demo import day_in_memory
from agents.demo.demo_settings import Day
from agents.logic.nodes.cluster.scaler_state import SILENT
from agents.settings import loading
from schemas.facts.sources import SourceReported
from schemas.outcomes import Action, ActionFinished, Result
from streams.log_context import LogContext


def test_in_steps_of_two_minutes_sources_are_heard_and_admissions_seen_through() -> None:
    day = Day(seed=1, seconds=0.001, tick=timedelta(minutes=2), length=timedelta(hours=5), pause=False)
    log = day_in_memory.new_log(day)
    *_, state = day_in_memory.played(day, loading.load(flags=day.in_one_process()).settings, log)
    context = LogContext.of(log, day.topics)
    wires = [day.topics.wire(name) for name in ("cluster-changes", "outcomes")]
    places = {(wire, partition): 0 for wire in wires for partition in range(day.partitions)}
    events = [context.codec.decode_or_none(record) for record in log.poll(places, limit=100_000)]
    reports: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for event in events:
        if isinstance(event, SourceReported):
            reports[event.source].append((event.at, event.period))
    assert len(reports) > 2
    for name, said in reports.items():
        moments = sorted(said)
        for (at, period), (then, _) in pairwise(moments):
            assert (then - at).total_seconds() <= SILENT * period, name
    patched = [event.result for event in events if isinstance(event, ActionFinished) and event.action is Action.PATCH]
    assert Result.DONE in patched
    assert Result.LOST not in patched
    assert state.done[Action.REMOVE_NODE] > 0
