"""Runs only the recommender on events in memory, and returns its conclusions as columns, without building decisions.

It stands for the whole pipeline where the other stages can have nothing to do: a usage trace has no policies, nodes or outcomes,
so no stage plans an update, a node or a replica, and conditions of VPA objects do not count in the score. `covers` checks that
for a pipeline. Everything else (a log, an incident file, other stages, several partitions) goes through `EventRunner` and `step`.
Amounts, turns and dead letters are the same either way.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agents.backtest.event_runner import RoutedEvent
from agents.engine.stage import Stage
from agents.engine.turn import Recorded, Turn
from agents.logic.vertical.recommender_stage import Conclusion, Recommender
from agents.logic.vertical.vertical_settings import NAME
from agents.run.stage_topics import stage_names
from schemas.catalogue import Event
from schemas.names import Place
from streams.topics import Topics

TRACE_TOPICS = ("rules", "pod-changes", "pod-changes-by-cluster", "oom-events", "pod-metrics")
"""Where the facts of a trace go, and the policy that says how all of its pods are changed."""

_Check = tuple[Callable[[Event], str | None], Callable[[Event, int], str | None]]


@dataclass(frozen=True, slots=True)
class ConcludedTurn:
    """What all stages gave in one turn: one conclusion, and how many records they set aside."""

    stages: int
    conclusion: Conclusion | None
    dead_letters: int


def covers(stages: Sequence[Stage], topics: Topics) -> bool:
    """Whether these stages are the pipeline, whose score on a trace the recommender alone decides, in one partition."""
    return topics.partitions == 1 and tuple(stage.name for stage in stages) == stage_names()


class RecommenderRunner:
    """The recommender of one partition, from an empty state, in place of all `stages`."""

    def __init__(self, stages: Sequence[Stage], topics: Topics) -> None:
        [stage] = [stage for stage in stages if stage.name == NAME]
        state = stage.open(0)
        if not isinstance(state, Recommender):
            msg = f"the stage '{NAME}' has a state of another kind: {type(state).__name__}"
            raise TypeError(msg)
        self.state = state
        self._stages, self._checks = len(stages), {topic: _checks(stages, topic) for topic in TRACE_TOPICS}
        self._accept: dict[str, _Check] = dict.fromkeys(stage.reads, (stage.refuse, stage.ahead))
        self._wires = {topic: topics.wire(topic) for topic in TRACE_TOPICS}
        self._offsets = dict.fromkeys(TRACE_TOPICS, 0)

    def turn(self, number: int, events: Iterable[RoutedEvent]) -> ConcludedTurn:
        """Take the turn of this number in, with these events of a trace."""
        inputs: dict[str, list[Recorded]] = {}
        dead, last, answers = 0, None, dict[_Check, bool]()
        for routed in events:
            event, topic = routed.event, routed.topic
            place = Place(self._wires[topic], 0, self._offsets[topic])
            self._offsets[topic] += 1
            if event is None:
                dead += sum(readers for _, readers in self._checks[topic])
                continue
            if event is not last:  # an event that goes to two topics is checked once
                last, answers = event, {}
            answers.update((check, _accepts(check, event, number)) for check, _ in self._checks[topic] if check not in answers)
            dead += sum(readers for check, readers in self._checks[topic] if not answers[check])
            if topic in self._accept and answers[self._accept[topic]]:
                inputs.setdefault(topic, []).append(Recorded(event, place))
        return ConcludedTurn(self._stages, self.state.conclude(Turn(number, inputs)), dead)


def _checks(stages: Sequence[Stage], topic: str) -> list[tuple[_Check, int]]:
    """The checks of a topic's readers, and how many readers share each."""
    readers: dict[_Check, int] = {}
    for stage in stages:
        if topic in stage.reads:
            readers[stage.refuse, stage.ahead] = readers.get((stage.refuse, stage.ahead), 0) + 1
    return list(readers.items())


def _accepts(check: _Check, event: Event, number: int) -> bool:
    refuse, ahead = check
    return not (refuse(event) or ahead(event, number))
