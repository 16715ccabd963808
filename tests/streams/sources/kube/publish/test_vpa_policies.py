"""The source is the one judge of what a VPA object says of itself: no stage refuses what it publishes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.event_validation import refuse
from streams.clients.kube.watched_objects import VpaObject
from streams.codec.event_codec import Codec
from streams.log.log_port import Record
from streams.sources.kube.publish import vpa_policies
from streams.topics import Topics
from tests.support.kube_objects import START, decoded, meta, vpa

TOPICS = Topics(partitions=1)
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
QUANTITIES = st.sampled_from(["100m", "1", "2Gi", "-1", "much", "1e30", "100Ei", 0, 3, 1e16, 1e17, ""])
NUMBERS = st.one_of(st.none(), st.integers(-2, 10), st.sampled_from([10**15, 10**17, 10**30]), st.just("two"))
AMOUNTS = st.none() | st.dictionaries(st.sampled_from(["cpu", "memory", "disk"]), QUANTITIES, max_size=2)
CONTAINERS = st.fixed_dictionaries(
    {},
    optional={
        "containerName": st.sampled_from(["app", "*", ""]),
        "mode": st.sampled_from(["Auto", "Off", "Maybe"]),
        "minAllowed": AMOUNTS,
        "maxAllowed": AMOUNTS,
        "controlledResources": st.lists(st.sampled_from(["cpu", "memory", "disk"]), max_size=2),
        "oomBumpUpRatio": QUANTITIES,
        "oomMinBumpUp": QUANTITIES,
        "memoryAggregationIntervalSeconds": NUMBERS,
        "memoryAggregationIntervalCount": NUMBERS,
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "targetRef": st.sampled_from([TARGET, {"kind": "", "name": "web"}, {"kind": "A/B", "name": "web"}, None, 7]),
        "updatePolicy": st.fixed_dictionaries({}, optional={"minReplicas": NUMBERS, "evictAfterOOMSeconds": NUMBERS}),
        "resourcePolicy": st.fixed_dictionaries({"containerPolicies": st.lists(CONTAINERS, max_size=2)}),
        "recommenders": st.lists(st.fixed_dictionaries({"name": st.sampled_from("ab")}), max_size=2),
    },
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        ["ullage/app.margin", "ullage/*.target_cpu_percentile", "ullage/app.cpu_half_life", "ullage/app.odd", "team"]
    ),
    st.sampled_from(["0.1", "1.5", "-1", "101", "much", "1e999", ""]),
)


@given(SPECS, ANNOTATIONS)
def test_no_stage_refuses_what_the_source_publishes_of_a_vpa(spec: object, annotations: dict[str, str]) -> None:
    found = decoded(VpaObject, {"metadata": meta("web", annotations=annotations), "spec": spec})
    policy = vpa_policies.changed(found, "real", START)
    resolved = policy if policy.unsupported or policy.target_ref is None else replace(policy, selector=())
    assert refuse(resolved) is None
    record = Codec(TOPICS).encode(resolved, topic="policies", key=resolved.key, partition=0, source="test")
    assert Codec(TOPICS).decode(Record(record.topic, 0, 0, record.key, record.value, record.headers)) == resolved


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("ullage/app.margin", "much", "the annotation 'ullage/app.margin' is 'much', which is no amount"),
        ("ullage/app.margin", "101", "the annotation 'ullage/app.margin' is '101'; a margin is at most 100"),
        ("ullage/*.cpu_half_life", "0", "the annotation 'ullage/*.cpu_half_life' is '0'; a half life is at least 1 s"),
    ],
)
def test_an_annotation_that_makes_no_sense_makes_the_vpa_unsupported_and_is_left_out(name: str, text: str, sentence: str) -> None:
    good = {"ullage/app.target_cpu_percentile": "0.8"}
    found = decoded(VpaObject, {"metadata": meta("web", annotations={**good, name: text}), "spec": {"targetRef": TARGET}})
    policy = vpa_policies.changed(found, "real", START)
    assert policy.unsupported == f"The spec cannot be carried out: {sentence}"
    assert policy.annotations == good


def test_an_amount_that_no_machine_has_makes_the_vpa_unsupported() -> None:
    policy = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"cpu": "2000k", "memory": "1Gi"}}]}
    path = "spec.resourcePolicy.containerPolicies[0].maxAllowed.cpu"
    sentence = f"The spec cannot be carried out: {path} is 2e+06; more than 1e+06 is not possible"
    assert vpa_policies.changed(vpa("web", resourcePolicy=policy), "real", START).unsupported == sentence


def test_of_several_entries_for_a_name_the_one_counts_that_upstream_finds() -> None:
    """The first for a container, the last for all of them."""
    entries = [("app", "1"), ("*", "2"), ("app", "3"), ("*", "4")]
    policies = [{"containerName": name, "maxAllowed": {"cpu": most}} for name, most in entries]
    found = decoded(
        VpaObject, {"metadata": meta("web"), "spec": {"targetRef": TARGET, "resourcePolicy": {"containerPolicies": policies}}}
    )
    policy = vpa_policies.changed(found, "real", START)
    assert [(each.container, each.max_allowed.cpu) for each in policy.containers] == [("app", 1), ("*", 4)]
