"""How the bodies of old events become those of today, one version at a time.

A lift gets the JSON object of one version and gives that of the next. It never looks at anything but the body, and it keeps every
fact in it. What it cannot lift raises ValueError, TypeError, KeyError or AttributeError; the codec sets such a record aside.
"""

from collections.abc import Callable, Mapping
from typing import Any

Body = dict[str, Any]
"""The JSON object of an event."""

Lift = Callable[[Body], Body]
"""From one version of a body to the next."""


def _requests_recommended_v1(body: Body) -> Body:
    """What code reads moves out of `because`: the number of pods, the last OOM kill and the source of OOM kills."""
    because = dict(body["because"])
    typed = {name: because.pop(name, None) for name in ("pods", "last_oom", "oom_source")}
    kill = typed["last_oom"]
    if kill is not None:
        pod = {"namespace": body["workload"]["namespace"], "name": kill["pod"], "uid": kill["uid"]}
        topic, partition, offset = kill["place"].rsplit(":", 2)
        place = {"topic": topic, "partition": int(partition), "offset": int(offset)}
        typed["last_oom"] = {**kill, "pod": pod, "place": place}
    return {**body, "because": because, **typed}


def _action_finished_v1(body: Body) -> Body:
    """An outcome was about a pod of a workload; now it names any subject."""
    lifted = {name: value for name, value in body.items() if name not in ("workload", "pod")}
    workload, pod = body["workload"], body["pod"]
    key = "/".join(workload[part] for part in ("cluster", "namespace", "kind", "name"))
    return {**lifted, "subject": {"kind": "pod", "cluster": workload["cluster"], **pod, "workload": key}}


def _pod_update_v1(body: Body) -> Body:
    """The id of the recommendation that an update or a refusal rests on moves out of `because`."""
    because = dict(body["because"])
    return {**body, "because": because, "recommendation": because.pop("recommendation", "")}


LIFTS: Mapping[tuple[str, int], Lift] = {
    ("action-finished", 1): _action_finished_v1,
    ("eviction-planned", 1): _pod_update_v1,
    ("requests-recommended", 1): _requests_recommended_v1,
    ("resize-planned", 1): _pod_update_v1,
    ("update-refused", 1): _pod_update_v1,
}
"""By the name on the wire and the version that is lifted."""
