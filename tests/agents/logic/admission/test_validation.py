"""Completing and checking VPA objects."""

from typing import Any

import pytest

from agents.logic.admission import vpa_validation
from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.admission.vpa_validation import CheckedVpa
from tests.support.admission_manifests import policy, vpa

Json = dict[str, Any]

OFF = AdmissionSettings()
ON = AdmissionSettings(cpu_startup_boost=True, per_vpa_config=True, in_place=True)
FIRST = "spec.resourcePolicy.containerPolicies[0]"
RECREATE = {"updateMode": "Recreate"}
MODE = "spec.updatePolicy.updateMode"
SWITCH = "you must enable feature gate {} in the admission-controller args"
GATE = "not supported when feature flag PerVPAConfig is disabled"


def check(settings: AdmissionSettings = OFF, before: Any = None, **spec: Any) -> CheckedVpa:
    return vpa_validation.check(vpa(**spec), before, settings)


def errors(settings: AdmissionSettings = OFF, before: Any = None, **spec: Any) -> list[str]:
    return [str(error) for error in check(settings, before, **spec).errors]


def test_a_missing_update_policy_is_completed_and_nothing_else_is() -> None:
    assert check().ops == ({"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}},)
    assert check(updatePolicy=RECREATE) == CheckedVpa(name="name")


@pytest.mark.parametrize(
    "amounts",
    [
        {"minAllowed": {"cpu": "1m", "memory": "1"}},
        {"minAllowed": {"cpu": "3m", "memory": "134217729"}, "maxAllowed": {"cpu": "3m", "memory": "134217729"}},
        {"startupBoost": {"cpu": {"type": "Factor", "factor": 1}}},
        {"startupBoost": {"cpu": {"type": "Quantity", "quantity": "3m"}}},
    ],
)
def test_whole_millicores_and_bytes_equal_bounds_and_a_boost_by_one_pass(amounts: Json) -> None:
    assert errors(ON, updatePolicy=RECREATE, resourcePolicy={"containerPolicies": [{"containerName": "c"} | amounts]}) == []


@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto", "InPlace"])
def test_the_known_modes_pass(mode: str) -> None:
    assert errors(ON, updatePolicy={"updateMode": mode}) == []


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({}, f"{MODE}: Required value: updateMode is required if UpdatePolicy is used"),
        (
            {"updateMode": "bad"},
            f'{MODE}: Unsupported value: "bad": supported values: "InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"',
        ),
        (RECREATE | {"minReplicas": 0}, "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive"),
        (RECREATE | {"minReplicas": -1}, "spec.updatePolicy.minReplicas: Invalid value: -1: minReplicas has to be positive"),
        (RECREATE | {"evictAfterOOMSeconds": 5}, f"spec.updatePolicy.evictAfterOOMSeconds: Forbidden: {GATE}"),
        (
            {"updateMode": "InPlace"},
            f"{MODE}: Forbidden: in order to use UpdateMode InPlace, {SWITCH.format('InPlace')}",
        ),
    ],
)
def test_update_policies_that_are_refused(update: Json, expected: str) -> None:
    assert errors(updatePolicy=update) == [expected]


@pytest.mark.parametrize(
    ("fields_", "expected"),
    [
        ({"containerName": ""}, ".containerName: Required value"),
        ({"mode": "bad"}, '.mode: Unsupported value: "bad": supported values: "Auto", "Off"'),
        (
            {"minAllowed": {"cpu": 100}, "maxAllowed": {"cpu": "10"}},
            '.maxAllowed[cpu]: Invalid value: "10": max resource for cpu is lower than min of "100"',
        ),
        ({"minAllowed": {"memory": "100m"}}, '.minAllowed[memory]: Invalid value: "100m": must be a whole number of bytes'),
        ({"maxAllowed": {"cpu": "1n"}}, '.maxAllowed[cpu]: Invalid value: "1n": must be a whole number of milli CPUs'),
        (
            {"mode": "Off", "controlledValues": "RequestsAndLimits"},
            ".controlledValues: Forbidden: controlledValues shouldn't be specified if container scaling mode is off",
        ),
        (
            {"controlledResources": ["cpu", "broken"]},
            '.controlledResources[1]: Unsupported value: "broken": supported values: "cpu", "memory"',
        ),
        ({"oomBumpUpRatio": "2"}, f".oomBumpUpRatio: Forbidden: {GATE}"),
        ({"oomMinBumpUp": "1"}, f".oomMinBumpUp: Forbidden: {GATE}"),
        ({"memoryAggregationIntervalSeconds": 1}, f".memoryAggregationIntervalSeconds: Forbidden: {GATE}"),
        ({"memoryAggregationIntervalCount": 1}, f".memoryAggregationIntervalCount: Forbidden: {GATE}"),
    ],
)
def test_container_policies_that_are_refused(fields_: Json, expected: str) -> None:
    assert errors(resourcePolicy=policy(**fields_)) == [FIRST + expected]


@pytest.mark.parametrize(
    ("fields_", "expected"),
    [
        ({"oomBumpUpRatio": "0.5"}, ".oomBumpUpRatio: Invalid value: 0.5: must be greater than or equal to 1.0"),
        ({"oomBumpUpRatio": "-1"}, ".oomBumpUpRatio: Invalid value: -1: must be greater than or equal to 1.0"),
        ({"oomMinBumpUp": "-1"}, ".oomMinBumpUp: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"memoryAggregationIntervalSeconds": 0},
            ".memoryAggregationIntervalSeconds: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            {"memoryAggregationIntervalCount": 0},
            ".memoryAggregationIntervalCount: Invalid value: 0: must be greater than or equal to 1",
        ),
    ],
)
def test_tuning_of_one_vpa_is_checked_where_it_is_allowed(fields_: Json, expected: str) -> None:
    assert errors(ON, resourcePolicy=policy(**fields_)) == [FIRST + expected]
    assert errors(ON, resourcePolicy=policy(oomBumpUpRatio="1.5", oomMinBumpUp="0", memoryAggregationIntervalSeconds=1)) == []


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ({}, ".type: Required value: must be either Factor or Quantity"),
        ({"type": "More"}, '.type: Unsupported value: "More": supported values: "Factor", "Quantity"'),
        ({"type": "Factor"}, ".factor: Required value: required when type is Factor"),
        ({"type": "Factor", "factor": 0}, ".factor: Invalid value: 0: must be >= 1 for type Factor"),
        ({"type": "Quantity"}, ".quantity: Required value: required when type is Quantity"),
        ({"type": "Quantity", "quantity": "1u"}, '.quantity: Invalid value: "1u": must be a whole number of milli CPUs'),
    ],
)
def test_boosts_that_are_refused(cpu: Json, expected: str) -> None:
    said = {"cpu": cpu}
    assert errors(ON, startupBoost=said) == [f"spec.startupBoost.cpu{expected}"]
    assert errors(ON, resourcePolicy=policy(startupBoost=said)) == [f"{FIRST}.startupBoost.cpu{expected}"]
    gate = SWITCH.format("CPUStartupBoost")
    assert errors(startupBoost=said) == [f"spec.startupBoost: Forbidden: in order to use startupBoost, {gate}"]


def test_a_boost_without_cpu_passes_as_it_does_upstream() -> None:
    assert errors(ON, startupBoost={}) == []


def test_only_one_recommender_may_be_named() -> None:
    assert errors(recommenders=[{"name": "a"}, {"name": "b"}]) == ["spec.recommenders: Too many: 2: must have at most 1 item"]
    assert errors(recommenders=[{"name": "a"}]) == []


def test_auto_and_what_was_there_before_are_taken_with_a_warning() -> None:
    (warning,) = check(updatePolicy={"updateMode": "Auto"}).warnings
    deprecated = '"Auto" mode is deprecated and will be removed in a future API version. Use explicit update modes like: '
    modes = "[InPlace InPlaceOrRecreate Initial Off Recreate]"
    more = "See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
    assert warning == f"spec.updatePolicy: {deprecated}{modes}. {more}"
    broken = policy(controlledResources=["broken"])
    found = check(before=vpa(resourcePolicy=broken), resourcePolicy=broken)
    assert found.errors == ()
    kept = 'unsupported value "broken" is allowed only because it is present in the existing VPA object'
    assert found.warnings == (f'{FIRST}.controlledResources[0]: {kept}; supported values: "cpu", "memory"',)


def test_what_an_object_used_before_it_may_keep_using() -> None:
    boost, tuned = {"cpu": {"type": "Factor", "factor": 2}}, policy(oomBumpUpRatio="2")
    assert errors(before=vpa(startupBoost=boost), startupBoost=boost) == []
    assert errors(before=vpa(resourcePolicy=policy(startupBoost={})), startupBoost=boost) == []
    assert errors(before=vpa(resourcePolicy=tuned), updatePolicy=RECREATE | {"evictAfterOOMSeconds": 1}) == []
    assert errors(before=vpa(updatePolicy={"updateMode": "InPlace"}), updatePolicy={"updateMode": "InPlace"}) == []
    assert errors(before=vpa(), startupBoost=boost) != []


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ([], ".: Internal error: . is a list where an object belongs"),
        (
            {"spec": {"updatePolicy": {"minReplicas": "two"}}},
            "spec.updatePolicy.minReplicas is a string where a whole number of 32 bits",
        ),
        ({"spec": {"updatePolicy": {"minReplicas": 2**31}}}, "where a whole number of 32 bits belongs"),
        ({"spec": {"resourcePolicy": policy(minAllowed={"cpu": "1x"})}}, "quantities must match the regular expression"),
        ({"status": {"recommendation": {"containerRecommendations": [{"target": {"cpu": "1K"}}]}}}, "quantity's suffix"),
        ({"metadata": {"creationTimestamp": "yesterday"}}, "metadata.creationTimestamp is no time"),
    ],
)
def test_an_object_that_cannot_be_read_is_refused_as_a_whole(manifest: Any, words: str) -> None:
    (error,) = vpa_validation.check(manifest, None, OFF).errors
    assert error.path == "."
    assert words in str(error)


def test_all_errors_are_told_together_as_kubernetes_tells_them() -> None:
    found = check(updatePolicy={}, recommenders=[{}, {}]).errors
    status = vpa_validation.refusal(found, group="autoscaling.k8s.io", kind="VerticalPodAutoscaler", name="name")
    assert status["code"] == 422
    assert status["reason"] == "Invalid"
    told = f"{MODE}: Required value: updateMode is required if UpdatePolicy is used"
    also = "spec.recommenders: Too many: 2: must have at most 1 item"
    assert status["message"] == f'VerticalPodAutoscaler.autoscaling.k8s.io "name" is invalid: [{told}, {also}]'
    details = status["details"]
    assert isinstance(details, dict)
    assert [cause["reason"] for cause in details["causes"]] == ["FieldValueRequired", "FieldValueTooMany"]
