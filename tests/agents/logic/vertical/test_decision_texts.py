"""What a recommendation says is written without its event, byte for byte as the event would be."""

from hypothesis import given
from hypothesis import strategies as st

from agents.logic import governing_policies
from agents.logic.governing_policies import PolicyRecord, WorkloadPolicy
from agents.logic.vertical.decision_texts import json_text, policy_text
from schemas.names import Place
from schemas.policies.vertical import UpdateMode
from schemas.policies.vpa import TargetRef, VpaChanged
from tests.support.cluster_events import START, when

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXT, TEXT, TEXT, st.one_of(st.none(), TEXT))
def test_a_policy_is_written_as_its_entry_would_be(target: str, version: str, beside: str, name: str | None) -> None:
    vpa = None if name is None else VpaChanged(when(START), "c", "n", name, when(START), TargetRef("Deployment", "web"), ())
    policy = WorkloadPolicy(target, version, UpdateMode.AUTO, vpa=vpa, beside=beside)
    record = PolicyRecord(policy, Place("policies", 3, 17))
    assert policy_text(record) == json_text(governing_policies.body(record))
