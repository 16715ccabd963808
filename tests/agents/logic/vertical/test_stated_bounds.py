"""The bounds of a workload as docs/security.md states them: 1,000 container names and 5,000 label sets, no more and no less."""

from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.catalogue import Event
from schemas.facts.pods import ContainerSeen
from tests.support.cluster_events import MINUTE, START, pod, turn, vpa


def test_a_workload_has_a_thousand_container_names_and_no_more() -> None:
    stage = Recommender(VerticalSettings(), 0)
    names = [f"c{n:04}" for n in range(1001)]
    stage.step(turn(START, pod_changes=[pod("a", START, containers=tuple(map(ContainerSeen, names[:999])))]))
    assert _names(stage) == set(names[:999])
    stage.step(turn(START + MINUTE, pod_changes=[pod("b", START, containers=tuple(map(ContainerSeen, names[999:])))]))
    assert _names(stage) == set(names[:1000])


def test_a_workload_has_five_thousand_label_sets_and_no_more() -> None:
    stage = Recommender(VerticalSettings(), 0)
    pods: list[Event] = [pod(f"p{n}", START, labels={"app": "api", "n": str(n)}) for n in range(5001)]
    stage.step(turn(START, policies=[vpa()], pod_changes=pods[:5000]))
    assert len(_label_sets(stage)) == 5000
    stage.step(turn(START + MINUTE, pod_changes=pods[5000:]))
    assert _label_sets(stage) - {"?"} == {f"app=api,n={n}" for n in range(5000)}


def _names(stage: Recommender) -> set[str]:
    return {container for _, container, _ in list(stage.usage.aggregates.keys())}


def _label_sets(stage: Recommender) -> set[str]:
    return {labels for _, _, labels in list(stage.usage.aggregates.keys())}
