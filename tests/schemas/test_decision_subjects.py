"""Subjects: one type that names whatever a decision or an outcome is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decision_subjects import Subject, SubjectKind
from schemas.ids import OutcomeId
from schemas.names import PodName, Workload
from schemas.outcomes import Action

CART = Workload("prod", "shop", "Deployment", "cart")
POD = Subject.of_pod(CART, PodName("shop", "cart-7f9c-x2", "u1"))
VPA = Subject.of_object("prod", "VerticalPodAutoscaler", "shop", "cart")


@pytest.mark.parametrize(
    ("subject", "said", "identity"),
    [
        (POD, "pod 'shop/cart-7f9c-x2'", "u1"),
        (Subject.of_workload(CART), "workload 'shop/cart'", "shop:cart"),
        (Subject.of_node("prod", "node-1", "n1"), "node 'node-1'", "n1"),
        (Subject.of_node("prod", "node-1"), "node 'node-1'", "node-1"),
        (Subject.of_node_group("prod", "eks/spot-a"), "node group 'eks/spot-a'", "eks%2Fspot-a"),
        (VPA, "VerticalPodAutoscaler 'shop/cart'", "shop:cart"),
    ],
)
def test_a_subject_is_named_in_sentences_and_told_from_others_by_its_id(subject: Subject, said: str, identity: str) -> None:
    assert (str(subject), subject.id) == (said, identity)


def test_a_pod_and_a_workload_name_the_workload_that_they_are_about() -> None:
    assert POD.workload == Subject.of_workload(CART).workload == "prod/shop/Deployment/cart"
    assert {VPA.workload, Subject.of_node("prod", "node-1").workload} == {""}


@given(st.builds(Subject, st.sampled_from(SubjectKind), st.text(), st.text(), st.text()))
def test_the_id_of_any_subject_is_one_part_of_the_id_of_an_outcome(subject: Subject) -> None:
    identity = OutcomeId("updater/0/5/evict/k", Action.EVICT, subject.id)
    assert OutcomeId.parse(str(identity)) == identity
