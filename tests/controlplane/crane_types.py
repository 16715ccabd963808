"""The types of deploy/crds on the plane: EHPA, Substitute and TimeSeriesPrediction, installed once and left there."""

from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.asking import Asking, wait_for

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SCALING, _PREDICTION = "/apis/autoscaling.crane.io/v1alpha1", "/apis/prediction.crane.io/v1alpha1"
_ROOTS = {
    "effectivehorizontalpodautoscalers": _SCALING,
    "substitutes": _SCALING,
    "timeseriespredictions": _PREDICTION,
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
}


def install(ask: Asking) -> None:
    """Install what is not there yet; all are served when this returns."""
    for file in sorted(CRDS.iterdir()):
        definition = yaml.safe_load(file.read_text(encoding="utf-8"))
        if ask.find(f"{_DEFINITIONS}/{definition['metadata']['name']}") is None:
            ask.post(f"{_DEFINITIONS}?fieldValidation=Strict", definition)
    for plural in ("effectivehorizontalpodautoscalers", "substitutes", "timeseriespredictions"):
        wait_for(lambda plural=plural: ask.good(f"{_ROOTS[plural]}/{plural}"), what=f"'{plural}' are served")  # type: ignore[misc]  # mypy cannot infer a lambda with a default


def path(namespace: str, plural: str, name: str = "") -> str:
    """Where such objects of a namespace are, or one of them."""
    whole = f"{_ROOTS[plural]}/namespaces/{namespace}/{plural}"
    return f"{whole}/{name}" if name else whole


def make(ask: Asking, namespace: str, plural: str, body: dict[str, Any]) -> Any:
    """Make one, strictly: the server refuses a field that it does not know."""
    return ask.post(f"{path(namespace, plural)}?fieldValidation=Strict", body)
