"""Whatever the order in which topics are read, and whenever it writes: the same statuses in the end, and no write for nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.ids import DecisionId
from schemas.names import Place
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.clients.kube.vpa_status_client import VpaStatus, VpaStatusMeta, VpaStatusObject, same
from streams.consumers.executing.rate_limit import RateLimit
from streams.consumers.vpa_status.conditions import Judging
from streams.consumers.vpa_status.projection import Desk, Service
from streams.consumers.vpa_status.status_objects import Objects
from tests.support.status_scene import AT, START, gone, pod, said, vpa

NAMES = ("a", "b")
TARGETS = ("x", "y")
HALF_HOUR = 1_800_000


class Shelf:
    """The objects, and a look at each write."""

    def __init__(self) -> None:
        self.held = {name: VpaStatusObject(VpaStatusMeta(name, "web", "u1", "0", 1)) for name in NAMES}

    def read(self, _namespace: str, name: str) -> VpaStatusObject | None:
        return self.held[name]

    def write(self, read: VpaStatusObject, status: VpaStatus) -> VpaStatusObject | None:
        name = read.metadata.name
        assert self.held[name] == read
        assert not same(self.held[name].status, status), "a write that says nothing new"
        version = str(int(read.metadata.resource_version) + 1)
        self.held[name] = VpaStatusObject(VpaStatusMeta(name, "web", "u1", version, 1), status=status)
        return self.held[name]


policies = st.lists(
    st.builds(
        vpa,
        st.sampled_from(NAMES),
        target=st.sampled_from(TARGETS),
        unsupported=st.sampled_from(["", "", "", "the target is gone"]),
        recommenders=st.sampled_from([(), (), ("default",), ("other",)]),
    )
    | st.builds(VpaRemoved, st.just(AT), st.just("demo"), st.just("web"), st.sampled_from(NAMES)),
    max_size=6,
)
pods = st.lists(
    st.builds(pod, st.sampled_from("pq"), st.sampled_from(TARGETS)) | st.builds(gone, st.sampled_from("pq"), st.just("x")),
    max_size=6,
)
recommendations = st.lists(
    st.builds(
        said,
        st.sampled_from(TARGETS),
        turn=st.integers(0, 8).map(lambda n: START + n * HALF_HOUR),
        pods=st.sampled_from([None, 0, 2]),
        cpu=st.sampled_from([100.0, 200.0]),
    ),
    max_size=6,
    unique_by=lambda event: event.id,
)


def told(events: Sequence[Event]) -> list[tuple[Event, Place]]:
    """Places in each topic; those of recommendations follow from their turn, so that they can be read in any order."""
    return [
        (event, Place("t", 0, DecisionId.parse(event.id).turn if isinstance(event, RequestsRecommended) else offset))
        for offset, event in enumerate(events)
    ]


def final(events: Sequence[tuple[Event, Place]], writes: Sequence[bool]) -> Mapping[str, VpaStatus]:
    """The statuses when these were read in this order; `writes`: after which of them everything due is settled."""
    scene, shelf = Desk("demo", Service(), lambda _: 0), Shelf()
    objects = Objects(shelf, RateLimit(1.0, 1, clock=lambda: 0.0, sleep=lambda _: None), Judging())
    for (event, place), now in zip(events, writes, strict=True):
        scene.take(event, place)
        if now:
            settle(scene, objects)
    settle(scene, objects)
    assert scene.take_changed() == []
    served = [name for name in NAMES if scene.order(f"demo/web/{name}") is not None]
    return {name: shelf.held[name].status for name in served}


def settle(scene: Desk, objects: Objects) -> None:
    for key in scene.take_changed():
        order = scene.order(key)
        if order is not None:
            objects.settle(order, AT)
            assert objects.settle(order, AT) is None


@given(policies, pods, recommendations, st.data())
def test_any_order_of_topics_and_any_times_of_writing_end_in_the_same_statuses(
    policies: list[Event], pods: list[Event], recommendations: list[Event], data: st.DataObject
) -> None:
    policies = [replace(each, generation=n) if isinstance(each, VpaChanged) else each for n, each in enumerate(policies)]
    lanes = [told(policies), told(pods), told(data.draw(st.permutations(recommendations)))]
    order = data.draw(st.permutations([0] * len(policies) + [1] * len(pods) + [2] * len(recommendations)))
    mixed = [lanes[lane].pop(0) for lane in order]
    writes = data.draw(st.lists(st.booleans(), min_size=len(mixed), max_size=len(mixed)))
    plain = [*told(policies), *told(pods), *told(recommendations)]
    assert final(mixed, writes) == final(plain, [False] * len(plain))


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 5))
def test_no_span_of_time_has_more_questions_than_the_burst_and_its_share(rests: list[float], burst: int) -> None:
    now, asked = [0.0], []
    pace = RateLimit(2.0, burst, clock=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    for rest in rests:
        now[0] += rest
        pace.wait()
        asked.append(now[0])
    for first in range(len(asked)):
        for last in range(first, len(asked)):
            assert last - first + 1 <= burst + (asked[last] - asked[first]) * 2.0 + 1e-6
