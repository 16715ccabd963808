"""What the questions to leaders make of brokers that go; what brokers answer is tested on real ones (tests/kafka)."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaError, LeaderNotAvailableError, UnknownBrokerIdError
from kafka.future import Future

from schemas.units import Seconds
from streams.log.leader_questions import EARLIEST, LATEST, LeaderQuestions
from streams.log.log_port import LogEnd

TOPIC = "facts"


class Brokers:
    """An admin client's brokers 1 and 2; each leads the partition of its number."""

    def __init__(self) -> None:
        self.gone: dict[int, KafkaError] = {}
        self.leaders = {1: 1, 2: 2}
        self.asked_for_leaders = self.refreshed = 0
        self._manager = SimpleNamespace(run=self.run, send=self.send, cluster=SimpleNamespace(request_update=self.refresh))

    def refresh(self) -> None:
        self.refreshed += 1

    def run(self, work: Any, *given: Any) -> Any:
        running = work(*given)
        try:
            while True:
                running.send(None)
        except StopIteration as done:
            return done.value

    async def _get_cluster_metadata(self, _topics: object) -> dict[str, Any]:
        self.asked_for_leaders += 1
        partitions = [{"partition_index": p, "leader_id": leader} for p, leader in self.leaders.items()]
        return {"topics": [{"name": TOPIC, "error_code": 0, "partitions": partitions}]}

    def send(self, request: Any, node_id: int, _ms: int) -> Future:
        if isinstance(self.gone.get(node_id), UnknownBrokerIdError):
            raise self.gone[node_id]  # as the client does, where it fails otherwise in the future
        if node_id in self.gone:
            return Future().failure(self.gone[node_id])
        parts = [p for topic in request.topics for p in topic.partitions]
        answers = [
            SimpleNamespace(
                partition_index=p.partition_index, error_code=0 if self.leaders[p.partition_index] == node_id else 6, offset=7,
                leader_epoch=3,
            )
            for p in parts
        ]  # fmt: skip
        return Future().success(SimpleNamespace(topics=[SimpleNamespace(name=TOPIC, partitions=answers)]))


def ends(questions: LeaderQuestions) -> dict[int, LogEnd]:
    return {partition: end for (_, partition), end in questions.ends([(TOPIC, 1), (TOPIC, 2)]).items()}


def test_leaders_are_asked_for_once() -> None:
    brokers: Any = Brokers()
    questions = LeaderQuestions(brokers)
    assert ends(questions) == ends(questions) == {1: LogEnd(7, 3), 2: LogEnd(7, 3)}
    assert brokers.asked_for_leaders == 1


@pytest.mark.parametrize("error", [KafkaConnectionError("it is gone"), UnknownBrokerIdError("2")])
def test_what_a_broker_led_that_is_gone_is_left_out_until_another_one_leads_it(error: KafkaError) -> None:
    brokers: Any = Brokers()
    questions = LeaderQuestions(brokers)
    ends(questions)
    brokers.gone[2] = error
    assert ends(questions) == {1: LogEnd(7, 3)}
    assert brokers.refreshed > 0, "the client may know a broker of before, or not know a new one"
    brokers.leaders[2] = 1
    assert ends(questions) == {1: LogEnd(7, 3), 2: LogEnd(7, 3)}


def test_a_leader_that_has_stepped_down_is_asked_no_more() -> None:
    brokers: Any = Brokers()
    questions = LeaderQuestions(brokers)
    ends(questions)
    brokers.leaders[2] = 1
    assert ends(questions) == {1: LogEnd(7, 3)}
    assert ends(questions) == {1: LogEnd(7, 3), 2: LogEnd(7, 3)}


def test_nobody_s_answer_is_an_error() -> None:
    brokers: Any = Brokers()
    questions = LeaderQuestions(brokers)
    ends(questions)
    brokers.gone = {1: KafkaConnectionError("gone"), 2: KafkaConnectionError("gone")}
    with pytest.raises(KafkaConnectionError):
        ends(questions)


def test_an_offset_that_must_be_known_waits_for_the_leader_to_answer() -> None:
    """A log that says no offset of one partition says none at all, and its client learns of a broker that has come back."""
    brokers: Any = Brokers()
    questions = LeaderQuestions(brokers)
    places = [(TOPIC, 1), (TOPIC, 2)]
    assert questions.offsets(places, EARLIEST) == dict.fromkeys(places, 7)
    brokers.gone[2] = UnknownBrokerIdError("2")
    with pytest.raises(LeaderNotAvailableError, match="facts:2"):
        questions.offsets(places, LATEST)
    assert brokers.refreshed > 0
    brokers.gone = {}
    assert questions.offsets(places, LATEST) == dict.fromkeys(places, 7)


class Busy(Brokers):
    """Named as leaders, they refuse so many questions before they act as such."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    def send(self, request: Any, node_id: int, ms: int) -> Future:
        if self.refusals == 0:
            return super().send(request, node_id, ms)
        self.refusals -= 1
        return super().send(request, 3, ms)


def test_new_partitions_are_waited_for_until_their_leaders_act_as_such() -> None:
    """After `topics apply` on a busy broker the next question failed, because no leader knew yet that it is one."""
    places = [(TOPIC, 1), (TOPIC, 2)]
    for refusals in (1, 7):
        busy: Any = Busy(refusals)
        LeaderQuestions(busy).await_leaders(places, Seconds(60.0))
        assert busy.refusals == 0
    with pytest.raises(KafkaError):
        LeaderQuestions(Busy(-1)).await_leaders(places, Seconds(0.0))
