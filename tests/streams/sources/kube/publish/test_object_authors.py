"""Who changed an object by which somebody commands, as its managed fields say it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.why import event_descriptions
from schemas.policies.control import Author, KnownBy
from streams.clients.kube.autoscaler_specs import AutoscalerObject, PredictionObject
from streams.clients.kube.watched_objects import VpaObject
from streams.sources.kube.publish import ehpa_policies, vpa_policies
from streams.sources.kube.publish.publisher import PublishedFacts
from tests.support.kube_objects import decoded, meta

AT = datetime(2026, 3, 1, tzinfo=UTC)
KINDS: dict[str, tuple[Any, Any]] = {
    "VPA": (VpaObject, vpa_policies.changed),
    "EHPA": (AutoscalerObject, ehpa_policies.changed),
    "TimeSeriesPrediction": (PredictionObject, ehpa_policies.prediction_changed),
}


def managed(manager: str, time: str | None, field: str = "f:spec", **more: str) -> dict[str, object]:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", **more}
    return {**entry, "fieldsV1": {field: {"f:x": {}}}, **({"time": time} if time else {})}


CREATED, EDITED = managed("helm", "2026-02-01T00:00:00Z"), managed("kubectl-edit", "2026-02-02T10:00:00Z")
LATER_STATUS = managed("updater", "2026-02-03T00:00:00Z", subresource="status")
LATER_LABEL = managed("labeler", "2026-02-04T00:00:00Z", "f:metadata")
OVER_STATUS = managed("vpa-status", "2026-02-05T00:00:00Z", "f:status")
ALICE = Author("kubectl-edit at 2026-02-02T10:00:00+00:00", KnownBy.CLUSTER)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ((EDITED, CREATED, LATER_STATUS, LATER_LABEL, OVER_STATUS), ALICE),
        ((CREATED, EDITED), ALICE),
        ((managed("old-client", None),), Author("old-client", KnownBy.CLUSTER)),
        ((LATER_STATUS,), None),
        ((), None),
    ],
)
def test_the_last_who_changed_the_spec_is_the_author(name: str, fields: tuple[Any, ...], by: Author | None) -> None:
    form, changed = KINDS[name]
    policy = changed(decoded(form, {"metadata": meta("web", managedFields=list(fields)), "spec": {}}), "prod", AT)
    assert policy.by == by
    if by is not None:
        assert event_descriptions.numbers(policy, None)["by"] == f"{by.name} (field manager)"


@pytest.mark.parametrize("name", KINDS)
def test_another_author_of_the_same_spec_is_no_change(name: str) -> None:
    form, changed = KINDS[name]
    policy = changed(decoded(form, {"metadata": meta("web"), "spec": {}}), "prod", AT)
    published: list[Any] = []
    facts = PublishedFacts[Any](published.append, lambda _: None)
    facts.upsert("web", policy)
    facts.upsert("web", replace(policy, by=ALICE))
    assert published == [policy]
    facts.upsert(
        "web", replace(policy, by=ALICE, labels={"a": "b"}) if name != "VPA" else replace(policy, by=ALICE, min_replicas=2)
    )
    assert published[-1].by == ALICE


@pytest.mark.parametrize("name", KINDS)
def test_whoever_removes_a_field_does_not_act_in_the_name_of_who_set_the_others(name: str) -> None:
    """A change of the spec raises its generation; who removes a field leaves no other trace."""
    form, changed = KINDS[name]
    doubtful = replace(ALICE, name=f"{ALICE.name}, or who removed a field since")
    first = replace(
        changed(decoded(form, {"metadata": meta("web"), "spec": {}}), "prod", AT), by=ALICE, generation=1, unsupported="a"
    )
    published: list[Any] = []
    facts = PublishedFacts[Any](published.append, lambda _: None)
    facts.upsert("web", first)
    facts.upsert("web", replace(first, unsupported="b"))
    facts.upsert("web", replace(first, unsupported="c", generation=2))
    facts.republish(AT + timedelta(hours=3), timedelta(hours=3))
    facts.restore({"web": published[-1]})
    facts.upsert("web", replace(first, unsupported="d", generation=3))
    facts.upsert("web", replace(first, unsupported="e", generation=4, by=replace(ALICE, name="bob")))
    assert [(fact.unsupported, fact.by.name) for fact in published] == [
        ("a", ALICE.name),
        ("b", ALICE.name),  # the same spec, to which something else gives another meaning
        ("c", doubtful.name),
        ("c", doubtful.name),
        ("d", doubtful.name),
        ("e", "bob"),
    ]
