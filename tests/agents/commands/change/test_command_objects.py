"""What the commands print as objects says in the log, once a source has mirrored it, what the commands would have written."""

import re
from dataclasses import replace

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from agents.commands.change import command_objects
from agents.logic import stage_rules
from agents.logic.updates.update_settings import UpdateSettings
from schemas import times
from schemas.names import Amounts
from schemas.policies.control import ControlChanged, ControlSchedule, Mode
from schemas.policies.vertical import ContainerPolicy, GuardOverrides, Tuning, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction, Seconds
from streams.clients.kube.commanding_objects import ControlObject, PolicyObject
from streams.clients.kube.json_objects import Json
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.sources.kube.publish.cluster_control import ControlDoor
from streams.sources.kube.publish.policy_objects import PolicyDoor
from tests.support.kube_scene import KubeScene

AT = times.from_ms(0)
BOUNDED = ContainerPolicy(
    "app",
    Amounts(Cores(0.1), Bytes(64 << 20)),
    Amounts(Cores(2.0), None),
    tuning=Tuning(risk_cpu=Fraction(0.01), risk_oom=0.5),
    policy="adaptive",
)
POLICIES = (
    VerticalPolicyChanged(AT, "real/shop/Deployment/cart", "1", UpdateMode.IN_PLACE, (BOUNDED,)),
    VerticalPolicyChanged(AT, "real/shop/Deployment/cart-*", "1", guards=GuardOverrides(cool_down=Seconds(3600.0))),
    VerticalPolicyChanged(AT, "real/shop/Job/*", "1", UpdateMode.OFF),
    VerticalPolicyChanged(AT, "real/shop/*", "1", UpdateMode.INITIAL, patch_new_pods=False),
)


def written(manifest: Json, number: int = 0) -> bytes:
    """The object as the API server keeps it."""
    about = {"uid": f"u{number}", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-05T10:00:00Z"}
    return msgspec.json.encode({**manifest, "metadata": manifest["metadata"] | about})


def test_policies_as_objects_are_mirrored_as_what_they_were() -> None:
    scene = KubeScene(policies=PolicyDoor(lambda _found, _status: None, lambda said: stage_rules.fault(UpdateSettings, said)))
    scene.sync("verticalpolicies")
    for number, policy in enumerate(POLICIES):
        manifest = command_objects.policy_manifest(policy, "real")
        assert manifest is not None
        scene.see("verticalpolicies", msgspec.json.decode(written(manifest, number), type=PolicyObject))
    found = OperatorLog(LogContext.of(scene.log, scene.topics)).policies()
    assert [replace(found[policy.target], at=AT, version="1", by=None, through="") for policy in POLICIES] == list(POLICIES)


WORKLOADS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["Deployment/", "Job/", "job/"]),
    st.text("ab.-", max_size=4),
    st.sampled_from(["", "*", "any"]),
) | st.just("*")


@given(st.lists(WORKLOADS, unique=True, min_size=2, max_size=8))
@example(["Deployment/cart-*", "Deployment/cart-any", "Deployment/cart.any", "deployment/cart-any"])
@example([f"Deployment/{'a' * 260}{last}" for last in "bc"])
def test_objects_of_two_targets_never_have_one_name(workloads: list[str]) -> None:
    manifests = [
        command_objects.policy_manifest(VerticalPolicyChanged(AT, f"real/shop/{name}", "1"), "real") for name in workloads
    ]
    names = [manifest["metadata"]["name"] for manifest in manifests if manifest is not None]
    assert len(names) == len(set(names)) == len(workloads)
    assert all(len(name) <= 253 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) for name in names)


def test_what_reaches_beyond_a_namespace_is_no_object() -> None:
    for target in ("*", "real/*", "real/shop*", "other/shop/*", "real/shop/Dep*"):
        assert command_objects.policy_manifest(VerticalPolicyChanged(AT, target, "1"), "real") is None


def test_the_switch_as_an_object_is_mirrored_as_what_it_was() -> None:
    night = ControlSchedule("0 1 * * *", 120, "Europe/Berlin", Mode.PLAN, Fraction(0.0), paused=True, reason="night")
    said = ControlChanged(AT, "real", Mode.APPLY, reason="in git", budget=Fraction(0.2), schedules=(night,))
    scene = KubeScene(control=ControlDoor(lambda _found, _status: None, lambda: "anybody may write"))
    scene.sync("clustercontrols")
    manifest = command_objects.control_manifest(said, on_an_open_log=True)
    scene.see("clustercontrols", msgspec.json.decode(written(manifest), type=ControlObject))
    found = OperatorLog(LogContext.of(scene.log, scene.topics)).control("real")
    assert found is not None
    assert replace(found, at=AT, by=None, through="") == said
