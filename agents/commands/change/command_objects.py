"""What people command, as objects of the cluster: manifests that `kubectl apply` takes, instead of records in the log.

They are printed and not sent, so the commands need no rights in the cluster, and people can read them and keep them in Git first.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b

from agents.commands.change.policy_file import quantities
from agents.terminal import output_table
from agents.terminal.output import data, note
from schemas.policies.control import ControlChanged, ControlSchedule
from schemas.policies.vertical import ContainerPolicy, VerticalPolicyChanged
from streams.clients.kube import commanding_objects
from streams.clients.kube.json_objects import Json

_API_VERSION = "ullage.internal/v1alpha1"
_NO_NAME = re.compile(r"[^a-z0-9]+")
_MOST_LETTERS = 253
"""Characters of an object's name."""


def print_control(control: ControlChanged, *, on_an_open_log: bool) -> None:
    """Print the ClusterControl that says the same."""
    _print(control_manifest(control, on_an_open_log=on_an_open_log))


def print_policies(policies: Iterable[VerticalPolicyChanged], cluster: str) -> None:
    """Print a list of VerticalPolicies; a policy that reaches beyond a namespace of this cluster is named on stderr."""
    items = []
    for policy in policies:
        manifest = policy_manifest(policy, cluster)
        if manifest is None:
            note(f"no object says the policy of '{policy.target}': it is not of one namespace of cluster '{cluster}'")
        else:
            items.append(manifest)
    _print({"apiVersion": "v1", "kind": "List", "items": items})


def control_manifest(control: ControlChanged, *, on_an_open_log: bool) -> Json:
    """The object of a cluster's switch."""
    spec: Json = {"mode": control.mode.value, "budget": float(control.budget)}
    spec |= _said(paused=control.paused, reason=control.reason, onAnOpenLog=on_an_open_log)
    if control.schedules:
        spec["schedules"] = [_schedule(each) for each in control.schedules]
    return _manifest(commanding_objects.CONTROL_KIND, {"name": "ullage"}, spec)


def policy_manifest(policy: VerticalPolicyChanged, cluster: str) -> Json | None:
    """The object of a policy; None for one whose target is not within a namespace of the cluster."""
    where, _, rest = policy.target.partition("/")
    namespace, slash, workloads = rest.partition("/")
    # an object lives in one namespace of one cluster, so none can say what a wider pattern says
    if where != cluster or not slash or "*" in namespace:
        return None
    kind, _, name = workloads.partition("/")
    if kind != "*" and "*" in kind:
        return None
    spec: Json = {"mode": policy.update_mode.value}
    if kind != "*":
        spec["target"] = {"kind": kind} | ({} if name == "*" else {"name": name})
    if policy.containers:
        spec["containers"] = [_container(entry) for entry in policy.containers]
    if policy.guards.said:
        spec["guards"] = {_camel(field): value for field, value in policy.guards.said.items()}
    if not policy.patch_new_pods:
        spec["patchNewPods"] = False
    return _manifest(commanding_objects.POLICY_KIND, {"name": _name(workloads), "namespace": namespace}, spec)


def _name(workloads: str) -> str:
    """A name that follows from the target: applying what was printed twice changes one object and makes no second."""
    # `cart-*` and `cart-any` read alike, and kinds differ in their capitals, so the letters alone would be one name for both
    digest = blake2b(workloads.encode(), digest_size=5).hexdigest()
    said = _NO_NAME.sub("-", workloads.replace("*", "any").lower())[: _MOST_LETTERS - len(digest) - 1].strip("-")
    return f"{said}-{digest}".lstrip("-")


def _manifest(kind: str, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _schedule(schedule: ControlSchedule) -> Json:
    budget = None if schedule.budget is None else float(schedule.budget)
    says = _said(
        timeZone=schedule.zone, mode=schedule.mode and schedule.mode.value, paused=schedule.paused, reason=schedule.reason
    )
    return {"begins": schedule.begins, "minutes": schedule.minutes, **says} | ({} if budget is None else {"budget": budget})


def _container(entry: ContainerPolicy) -> Json:
    bounds = _said(min=quantities(entry.min_allowed), max=quantities(entry.max_allowed), policy=entry.policy)
    risks = {"riskCpu": entry.tuning.risk_cpu, "riskOom": entry.tuning.risk_oom}
    return {"container": entry.container, **bounds, **{name: float(risk) for name, risk in risks.items() if risk is not None}}


def _said(**fields: object) -> Json:
    """Without those that say nothing."""
    return {name: value for name, value in fields.items() if value}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _print(manifest: Json) -> None:
    for line in output_table.document("yaml", manifest):
        data(line)
