"""An EHPA as the API server sends it, with every field."""

import msgspec

from streams.clients.kube.autoscaler_specs import AutoscalerObject

SPEC = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"},
    "minReplicas": 2,
    "maxReplicas": 10,
    "scaleStrategy": "Preview",
    "specificReplicas": 4,
    "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        {
            "type": "External",
            "external": {
                "metric": {"name": "queue", "selector": {"matchLabels": {"q": "orders"}}},
                "target": {"type": "AverageValue", "averageValue": 30},
            },
        },
    ],
    "crons": [{"name": "night", "start": "0 1 * * *", "end": "0 5 * * *", "targetReplicas": 8}],
    "behavior": {"scaleDown": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}},
    "prediction": {
        "predictionWindowSeconds": 3600,
        "predictionAlgorithm": {
            "algorithmType": "dsp",
            "dsp": {"sampleInterval": "1m", "historyLength": "7d", "estimators": {"fft": [{"marginFraction": "0.2"}]}},
        },
    },
}


def ehpa(spec: object = SPEC, name: str = "cart", version: str = "17") -> AutoscalerObject:
    body = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": "u1",
            "generation": 3,
            "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"ullage/scaling": "direct", "autoscaling.crane.io/effective-hpa-current-metrics": "- type: x"},
        },
        "spec": spec,
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=AutoscalerObject)
