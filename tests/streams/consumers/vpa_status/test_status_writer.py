"""Whenever the writer writes: the same statuses in the end, no write for nothing, and never over an unseen version."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.names import Amounts
from streams.clients.kube.vpa_status_client import VpaStatus, VpaStatusMeta, VpaStatusObject, same
from streams.consumers.executing.acting_consumer import RateLimit
from streams.consumers.vpa_status_writer import StatusWriter
from tests.support.status_scene import AT

NAMES = ("a", "b")


class Shelf:
    """The objects, and a look at each write."""

    def __init__(self) -> None:
        self.objects = {name: VpaStatusObject(VpaStatusMeta(name, "web", "u1", "0", 1)) for name in NAMES}

    def read(self, _namespace: str, name: str) -> VpaStatusObject | None:
        return self.objects[name]

    def write(self, read: VpaStatusObject, status: VpaStatus) -> VpaStatusObject | None:
        name = read.metadata.name
        assert self.objects[name] == read
        assert not same(self.objects[name].status, status), "a write that says nothing new"
        version = str(int(read.metadata.resource_version) + 1)
        self.objects[name] = VpaStatusObject(VpaStatusMeta(name, "web", "u1", version, 1), status=status)
        return self.objects[name]


statuses = st.sampled_from([ConditionStatus.TRUE, ConditionStatus.FALSE])
recommendation = st.builds(
    ContainerRecommendation, st.just("app"), *[st.builds(Amounts, st.sampled_from([None, 0.1, 0.25]), st.just(1024))] * 4
)


def _decided(
    name: str, others: tuple[ConditionStatus, ...], containers: tuple[ContainerRecommendation, ...]
) -> VpaConditionsDecided:
    provided = ConditionStatus.TRUE if containers else ConditionStatus.FALSE
    conditions = zip(ConditionType, (provided, *others), strict=True)
    listed = tuple(DecidedCondition(kind, status, AT) for kind, status in conditions)
    return VpaConditionsDecided("d", AT, "demo", "web", name, "u1", 1, listed, containers, {})


decisions = st.lists(
    st.builds(
        _decided,
        st.sampled_from(NAMES),
        st.tuples(*[statuses] * (len(ConditionType) - 1)),
        st.lists(recommendation, max_size=1).map(tuple),
    ),
    max_size=10,
)


def final(decided: Sequence[VpaConditionsDecided], writes: Sequence[bool]) -> Mapping[str, VpaStatus]:
    """The statuses after these decisions; `writes`: after which of them the newest of each object is written."""
    shelf, newest = Shelf(), dict[str, VpaConditionsDecided]()
    writer = StatusWriter(shelf, RateLimit(1.0, 1, clock=lambda: 0.0, sleep=lambda _: None))
    for decision, now in zip(decided, writes, strict=True):
        newest[decision.name] = decision
        for each in newest.values() if now else ():
            writer.write(each)
            assert writer.write(each) is None
    for each in newest.values():
        writer.write(each)
    return {name: shelf.objects[name].status for name in newest}


@given(decisions, st.data())
def test_any_times_of_writing_end_in_the_same_statuses(decided: list[VpaConditionsDecided], data: st.DataObject) -> None:
    writes = data.draw(st.lists(st.booleans(), min_size=len(decided), max_size=len(decided)))
    assert final(decided, writes) == final(decided, [False] * len(decided))
