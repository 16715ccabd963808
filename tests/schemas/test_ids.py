"""Ids of decisions and outcomes, in both directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import DecisionId, OutcomeId, TaskSource
from schemas.outcomes import Action

SEGMENTS = st.text(st.characters(exclude_characters="/", codec="utf-8"))
DECISIONS = st.builds(DecisionId, SEGMENTS, st.integers(0), st.integers(0), SEGMENTS, st.text())


def test_a_decision_id_is_its_cause_spelled_out() -> None:
    identity = DecisionId("recommender", 3, 1_767_225_600_000, "requests", "demo/shop/Deployment/cart")
    assert str(identity) == "recommender/3/1767225600000/requests/demo/shop/Deployment/cart"


def test_an_outcome_id_ends_in_the_action_and_the_pod() -> None:
    assert str(OutcomeId("updater/0/5/evict/u-1", Action.EVICT, "u-1")) == "updater/0/5/evict/u-1/evict/u-1"


@given(DECISIONS)
def test_parsing_a_decision_id_gives_its_parts_back(identity: DecisionId) -> None:
    assert DecisionId.parse(str(identity)) == identity


@given(DECISIONS.map(str), st.sampled_from(Action), SEGMENTS)
def test_parsing_an_outcome_id_gives_its_parts_back(decision: str, action: Action, subject: str) -> None:
    assert OutcomeId.parse(str(OutcomeId(decision, action, subject))) == OutcomeId(decision, action, subject)


@pytest.mark.parametrize("text", ["", "recommender/0/5/requests", "recommender/x/5/requests/k", "recommender/0/soon/requests/k"])
def test_a_text_of_another_form_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no decision id"):
        DecisionId.parse(text)


@pytest.mark.parametrize("text", ["d/evict", "updater/0/5/evict/u-1/dance/u-1"])
def test_an_outcome_id_needs_an_action_that_exists(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no outcome id"):
        OutcomeId.parse(text)


@given(SEGMENTS.filter(bool), st.integers(0))
def test_parsing_the_source_of_a_task_gives_its_parts_back(stage: str, partition: int) -> None:
    assert TaskSource.parse(str(TaskSource(stage, partition))) == TaskSource(stage, partition)


@pytest.mark.parametrize(
    "text", ["", "/ullage/source/kube", "/ullage//3", "x/ullage/updater/3", "/ullage/updater/3/4", "/ullage/updater"]
)
def test_the_source_of_anything_else_is_no_task(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no task"):
        TaskSource.parse(text)
