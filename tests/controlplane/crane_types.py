"""The types of deploy/crds on the plane: EHPA, Substitute and TimeSeriesPrediction. The plane has them from its start."""

from pathlib import Path
from typing import Any

from tests.controlplane.api_requests import Asking

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
CUSTOM = ("effectivehorizontalpodautoscalers", "substitutes", "timeseriespredictions")
_SCALING, _PREDICTION = "/apis/autoscaling.crane.io/v1alpha1", "/apis/prediction.crane.io/v1alpha1"
ROOTS = {
    "effectivehorizontalpodautoscalers": _SCALING,
    "substitutes": _SCALING,
    "timeseriespredictions": _PREDICTION,
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
}


def path(namespace: str, plural: str, name: str = "") -> str:
    """Where such objects of a namespace are, or one of them."""
    whole = f"{ROOTS[plural]}/namespaces/{namespace}/{plural}"
    return f"{whole}/{name}" if name else whole


def make(ask: Asking, namespace: str, plural: str, body: dict[str, Any]) -> Any:
    """Make one, strictly: the server refuses a field that it does not know."""
    return ask.post(f"{path(namespace, plural)}?fieldValidation=Strict", body)
