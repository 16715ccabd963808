"""A namespace has so many forecasts and no more: its oldest objects have them, whatever came first and whoever came and went."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.logic.replicas import metric_series
from agents.logic.replicas.metric_series import NamespaceShares, SharingObject, WantedLoads
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.scaling import CronTrigger
from schemas.policies.vpa import TargetRef
from streams.topics import Topics
from tests.support import load_scene
from tests.support.replica_scene import MONDAY, ForecasterScene, ehpa, forecasts, refusals, resumed

MOST = 5
KEYS = tuple(f"c/{namespace}/Ehpa/{name}" for namespace in ("a", "b") for name in range(5))
OBJECTS = st.builds(
    SharingObject,
    st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.just("")),
    st.integers(0, 4),
    st.sampled_from(["", "c/a/D/x", "c/a/D/y"]),
    st.integers(0, 4),
)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_series, "MOST_FORECASTS", MOST)
    monkeypatch.setattr(metric_series, "MOST_CRONS", MOST)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.none() | OBJECTS, st.booleans()), max_size=30))
def test_who_is_looked_at_follows_from_what_is_there_alone(changes: list[tuple[str, SharingObject | None, bool]]) -> None:
    shares, there, seen = NamespaceShares(), dict[str, SharingObject](), dict[str, bool]()
    for key, new, settle in changes:
        there.pop(key, None)
        if new is None:
            shares.remove(key)
        else:
            shares.put(key, new)
            there[key] = new
        if settle:
            for told in shares.settle():
                seen[told] = shares.is_refused(told)
    for told in shares.settle():
        seen[told] = shares.is_refused(told)
    again = NamespaceShares()
    for key in sorted(there, reverse=True):
        again.put(key, there[key])
    again.settle()
    for key in KEYS:
        assert shares.is_refused(key) == again.is_refused(key) == seen.get(key, False), "and each change of it is told"
    for namespace in ("c/a/", "c/b/"):
        mine = {key: each for key, each in there.items() if key.startswith(namespace)}
        assert sum(max(1, each.metrics) for key, each in mine.items() if not shares.is_refused(key)) <= MOST
        assert sum(each.crons for key, each in mine.items() if not shares.is_refused(key)) <= MOST
    for target in ("c/a/D/x", "c/a/D/y"):
        rivals = [(each.rank, key) for key, each in there.items() if each.scales == target and key.startswith("c/a/")]
        assert shares.scaled_by(target) == (min(rivals)[1] if rivals else None)


def own(n: int, **changes: object) -> EhpaChanged:
    """An EHPA with a target of its own."""
    target = TargetRef("Deployment", f"cart-{n}", "apps/v1")
    return ehpa(name=f"e{n}", uid=f"u{n}", created=MONDAY + timedelta(seconds=n), target_ref=target, **changes)


def test_a_younger_object_beyond_the_share_has_no_forecast_and_is_told_so_until_there_is_room() -> None:
    scene = ForecasterScene()
    many = [own(n) for n in range(MOST + 2)]
    decided = scene.run(MONDAY, 30, *reversed(many))
    [refused] = {each.reason for each in refusals(decided) if each.guard == "metrics"}
    assert refused == "older objects of namespace 'shop' have 1,000 metrics; more are not looked at"
    assert {each.ehpa for each in refusals(decided) if each.guard == "metrics"} == {each.key for each in many[MOST:]}
    empty = {each.name for each in forecasts(decided) if not each.metrics}
    assert empty == {each.name for each in many[MOST:]}
    assert len(scene.state.known.models) == MOST
    later = MONDAY + timedelta(minutes=1)
    for each in (scene, resumed(scene)):
        each.run(later, 30, EhpaRemoved(later, "prod", "shop", "e0"))
        assert {key.split("|")[0] for key, _ in each.state.known.models.items()} == {one.key for one in many[1 : MOST + 1]}


def test_a_younger_object_beyond_the_crons_of_its_namespace_is_not_planned_for_and_told_so() -> None:
    scene = ForecasterScene()
    daily = (CronTrigger("day", "0 8 * * *", "0 18 * * *", 3), CronTrigger("night", "0 20 * * *", "0 6 * * *", 2))
    many = [own(n, crons=daily) for n in range(3)]
    [refused] = [each for each in refusals(scene.run(MONDAY, 30, *reversed(many))) if each.guard == "crons"]
    assert refused.ehpa == many[2].key, "each has two of five"
    assert refused.reason == "older objects of namespace 'shop' have 1,000 crons; more are not looked at"


def test_the_source_of_loads_asks_for_nothing_that_the_forecaster_refuses_for_its_crons() -> None:
    daily = (CronTrigger("day", "0 8 * * *", "0 18 * * *", 3), CronTrigger("night", "0 20 * * *", "0 6 * * *", 2))
    wanted = WantedLoads("prod", Topics(partitions=1).partition_of, 50)
    for n in range(3):
        made = load_scene.ehpa(f"e{n}", query=f"load_{n}", created=MONDAY + timedelta(seconds=n), crons=daily)
        wanted.apply(made)
    assert [each.query for each in wanted.series()] == ["load_0", "load_1"], "each has two of five"
