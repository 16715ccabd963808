"""Custom metrics: the same forecasts and schedules, requested for the object that is scaled.

Where another adapter serves external metrics, custom ones may be free, and an autoscaler can use either: with a metric of type
Object that describes the workload. The resource identifier is a label of the metric's selector.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from streams.consumers.metrics_api.discovery import CUSTOM

KINDS = {
    "deployments.apps": ("Deployment", "apps/v1"),
    "statefulsets.apps": ("StatefulSet", "apps/v1"),
    "replicasets.apps": ("ReplicaSet", "apps/v1"),
    "replicationcontrollers": ("ReplicationController", "v1"),
}
"""The objects that can be asked about: from the words of a path to kind and API version."""


def selector_of(resource: str, namespace: str, name: str, labels: Mapping[str, str]) -> dict[str, str]:
    """The selector of a request for the same external metric. Raises ValueError for a resource that we do not scale."""
    if resource not in KINDS:
        raise ValueError(f"there are no metrics of '{resource[:100]}'; there are some of {', '.join(KINDS)}")
    kind, _ = KINDS[resource]
    return {**labels, "targetKind": kind, "targetName": name, "targetNamespace": namespace}


def value_list(question: Mapping[str, str], labels: Mapping[str, str], quantity: str, at: datetime) -> dict[str, Any]:
    """The response in the API's form; `question` has the parts of the path: resource, namespace, name and metric."""
    kind, version = KINDS[question["resource"]]
    item = {
        "describedObject": {
            "kind": kind,
            "namespace": question["namespace"],
            "name": question["name"],
            "apiVersion": version,
        },
        "metric": {"name": question["metric"], "selector": {"matchLabels": dict(labels)} if labels else None},
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "value": quantity,
    }
    return {"kind": CUSTOM.kind, "apiVersion": CUSTOM.group_version, "metadata": {}, "items": [item]}
