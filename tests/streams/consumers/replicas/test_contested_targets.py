"""Several EHPAs on one target: whom the forecaster chooses, the consumer lets scale, and nobody else."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.decisions.replica_plans import ReplicasPlanned, ReplicasRefused
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.vpa import TargetRef
from tests.streams.consumers.replicas.test_killed_autoscalers import CART, Site
from tests.support.replica_scene import MONDAY, ForecasterScene, pods, scale, scrape

NOW = MONDAY + timedelta(hours=2)
FAULT = "The spec cannot be carried out: spec.maxReplicas is 1, and spec.minReplicas 2"
MADE = replace(CART, crons=())


def contender(name: str, age: int, *, broken: bool = False, target: str = "cart") -> EhpaChanged:
    made, ref = MONDAY - timedelta(hours=age), TargetRef("Deployment", target, "apps/v1")
    return replace(MADE, name=name, uid=f"u-{name}", created=made, target_ref=ref, unsupported=FAULT if broken else "")


def verdicts(objects: list[EhpaChanged], scene: ForecasterScene | None = None, at: datetime = NOW) -> list[Any]:
    """What the forecaster decides about these and what it knew before, without the copies."""
    decided = (scene or ForecasterScene()).run(at, 30, *objects, *pods(at, 3), scrape(at, 3, 0.9), scale(at, 3))
    return [one.event for one in decided if one.topic == "replica-plans"]


def chosen(decisions: list[Any]) -> set[str]:
    """The keys of the EHPAs of which it last said that they scale their target."""
    last = {one.ehpa: one for one in decisions if isinstance(one, ReplicasPlanned | ReplicasRefused)}
    return {key for key, one in last.items() if not (isinstance(one, ReplicasRefused) and one.guard in ("rival", "spec"))}


def scaling(site: Site) -> set[str]:
    """The keys of the EHPAs that have an HPA."""
    children = {child.removeprefix("ehpa-") for _namespace, child in site.world.hpas.held}
    return {f"prod/shop/EffectiveHorizontalPodAutoscaler/{name}" for name in children}


def ready(site: Site, name: str) -> tuple[str, str, str]:
    conditions: Any = site.world.ehpas.held["shop", name]["status"]["conditions"]
    return next((one["status"], one["reason"], one["message"]) for one in conditions if one["type"] == "Ready")


def site_of(objects: list[EhpaChanged], decisions: list[Any] = ()) -> Site:  # type: ignore[assignment]  # none yet
    site = Site()
    for target in ("web", "api"):
        site.world.has(target, 2)
    del site.world.ehpas.held["shop", "cart"]
    site.put("policies", CART.key, EhpaRemoved(MONDAY, "prod", "shop", "cart"))
    for one in objects:
        site.say(one)
    for decision in decisions:
        site.put("replica-plans", decision.workload.key, decision)
    site.settle()
    return site


def test_an_older_ehpa_that_nobody_can_carry_out_keeps_no_other_from_its_target() -> None:
    objects = [contender("sound", 0), contender("broken", 1, broken=True)]
    for decisions in ([], verdicts(objects)):
        site = site_of(objects, decisions)
        assert scaling(site) == {objects[0].key}
        assert ready(site, "sound")[:2] == ("True", "EffectiveHorizontalPodAutoscalerReady")
        assert ready(site, "broken") == ("False", "Unsupported", FAULT)


def test_one_that_can_no_longer_be_carried_out_gives_its_hpa_up_only_for_another() -> None:
    alone = contender("old", 1)
    site = site_of([alone])
    broken = replace(alone, unsupported=FAULT, generation=2)
    site.say(broken)
    site.settle()
    assert (scaling(site), ready(site, "old")[1]) == ({alone.key}, "Unsupported")
    younger = contender("young", 0)
    site.say(younger)
    site.settle()
    assert scaling(site) == {younger.key}


def test_a_verdict_stands_until_the_forecaster_gives_another_one() -> None:
    """An older EHPA comes back, from a backup say: until the forecaster has seen it, the younger one goes on alone."""
    young = contender("young", 0)
    scene = ForecasterScene()
    first = verdicts([young], scene)
    old = contender("old", 5)
    site = site_of([young, old], first)
    assert scaling(site) == {young.key}
    for decision in verdicts([old], scene, NOW + timedelta(minutes=1)):
        site.put("replica-plans", decision.workload.key, decision)
    site.settle()
    assert scaling(site) == {old.key}


OBJECTS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from(["cart", "web", "api"])), min_size=1, max_size=6)


@settings(deadline=None, max_examples=25)
@given(drawn=OBJECTS, gone=st.sets(st.integers(0, 5), max_size=2), said=st.booleans())
def test_consumer_and_forecaster_never_disagree(drawn: list[tuple[int, bool, str]], gone: set[int], *, said: bool) -> None:
    objects = [contender(f"e{n}", age, broken=broken, target=target) for n, (age, broken, target) in enumerate(drawn)]
    scene = ForecasterScene()
    decisions = verdicts(objects, scene)
    removed = [one for n, one in enumerate(objects) if n in gone]
    later = NOW + timedelta(minutes=1)
    left = [one for one in objects if one not in removed]
    after = scene.run(later, 30, *(EhpaRemoved(later, "prod", "shop", one.name) for one in removed), scale(later, 3))
    decisions += [one.event for one in after if one.topic == "replica-plans"]
    site = site_of(left, decisions if said else [])
    keys = {one.key for one in left}
    assert scaling(site) == chosen(decisions) & keys
