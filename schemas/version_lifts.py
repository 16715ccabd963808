"""How the bodies of old events become those of today, one version at a time.

A lift gets the JSON object of one version and gives that of the next, as today's code would write it: `replay --verify` compares
lifted decisions with recomputed ones. It looks only at the body and keeps every fact in it; it leaves out a field whose value the
older version did not have. What it cannot lift raises ValueError, TypeError, KeyError or AttributeError; the codec sets such a
record aside.
"""

from collections.abc import Callable, Mapping
from typing import Any

EventBody = dict[str, Any]
"""The JSON object of an event."""

Lift = Callable[[EventBody], EventBody]
"""From one version of a body to the next."""


def _requests_recommended_v1(body: EventBody) -> EventBody:
    """What code reads moves out of `because`: the number of pods, the last OOM kill and the source of OOM kills.

    The reasons of a container keep only the rules that differ from the settings, which stand beside them.
    """
    because = dict(body["because"])
    settings, reasons = because.get("settings"), because.get("containers")
    if isinstance(settings, dict) and isinstance(reasons, dict):
        because["containers"] = {name: _without_settings(about, settings) for name, about in reasons.items()}
    typed = {name: because.pop(name, None) for name in ("pods", "last_oom", "oom_source")}
    kill = typed["last_oom"]
    if kill is not None:
        pod = {"namespace": body["workload"]["namespace"], "name": kill["pod"], "uid": kill["uid"]}
        topic, partition, offset = kill["place"].rsplit(":", 2)
        place = {"topic": topic, "partition": int(partition), "offset": int(offset)}
        typed["last_oom"] = {**kill, "pod": pod, "place": place}
    return {**body, "because": because, **typed}


def _without_settings(about: Any, settings: EventBody) -> Any:
    """The reasons of one container without its margin, percentile shares and bounds, where the settings say the same."""
    if not isinstance(about, dict):
        return about
    kept = {name: value for name, value in about.items() if name != "margin" or value != settings.get("margin")}
    for resource in ("cpu", "memory"):
        found = kept.get(resource)
        if isinstance(found, dict):
            own = {bound: settings.get(f"{bound}_{resource}_percentile") for bound in ("lower", "target", "upper")}
            unset = {"shares": own, "min_allowed": None, "max_allowed": None}
            kept[resource] = {name: value for name, value in found.items() if name not in unset or value != unset[name]}
    return kept


def _action_finished_v1(body: EventBody) -> EventBody:
    """Outcomes used to name a pod of a workload; now they name any subject."""
    lifted = {name: value for name, value in body.items() if name not in ("workload", "pod")}
    workload, pod = body["workload"], body["pod"]
    key = "/".join(workload[part] for part in ("cluster", "namespace", "kind", "name"))
    return {**lifted, "subject": {"kind": "pod", "cluster": workload["cluster"], **pod, "workload": key}}


def _pod_update_v1(body: EventBody) -> EventBody:
    """The id of the recommendation that an update or a refusal rests on moves out of `because`."""
    because = dict(body["because"])
    return {**body, "because": because, "recommendation": because.pop("recommendation", "")}


def _defaults(body: EventBody) -> EventBody:
    """The next version only adds fields, whose defaults say what the older version meant."""
    return body


LIFTS: Mapping[tuple[str, int], Lift] = {
    ("action-finished", 1): _action_finished_v1,
    ("eviction-planned", 1): _pod_update_v1,
    ("hpa-target-changed", 1): _defaults,
    ("load-forecast", 1): _defaults,
    ("node-details-changed", 1): _defaults,
    ("node-group-seen", 1): _defaults,
    ("pod-changed", 1): _defaults,
    ("pod-changed", 2): _defaults,
    ("pod-placement-changed", 1): _defaults,
    ("pod-shape-seen", 1): _defaults,
    ("replica-controller-changed", 1): _defaults,
    ("replicas-planned", 1): _defaults,
    ("replicas-planned", 2): _defaults,
    ("replicas-refused", 1): _defaults,
    ("requests-recommended", 1): _requests_recommended_v1,
    ("resize-planned", 1): _pod_update_v1,
    ("source-reported", 1): _defaults,
    ("update-refused", 1): _pod_update_v1,
}
"""By the name on the wire and the version that is lifted."""
