"""The specs of TimeSeriesPredictions, as the API server sends them; one bad field must not hide the object's name."""

import msgspec

from streams import typed_json
from streams.clients.kube.autoscaler_specs import AlgorithmSpec
from streams.clients.kube.pod_objects import AuthoredMeta


class PredictionObject(msgspec.Struct, frozen=True, gc=False):
    """A TimeSeriesPrediction with its spec undecoded."""

    metadata: AuthoredMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class PredictedReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The target of a prediction, maybe in another namespace."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_version: str = ""


class ExpressionSpec(msgspec.Struct, frozen=True, gc=False):
    """The block `expressionQuery`."""

    expression: str = ""


class NamedQuerySpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `metricQuery`, of which only the name counts: it defines no query."""

    metric_name: str = ""


class PredictionMetricSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `predictionMetrics`."""

    resource_identifier: str = ""
    type: str = ""
    resource_query: str = ""
    expression_query: ExpressionSpec | None = None
    metric_query: NamedQuerySpec | None = None
    algorithm: AlgorithmSpec | None = None


class TspSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec."""

    target_ref: PredictedReference
    prediction_window_seconds: int | None = None
    prediction_metrics: list[PredictionMetricSpec] | None = None


class _OnlyTarget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    target_ref: PredictedReference


def decode_prediction(spec: msgspec.Raw) -> TspSpec:
    """The spec. Raises ValueError with the place of what is not as the API has it."""
    return typed_json.decode_object(spec, TspSpec, "spec")


def decode_predicted(spec: msgspec.Raw) -> PredictedReference | None:
    """Only its target; None if not even that can be read."""
    try:
        return typed_json.decode_object(spec, _OnlyTarget).target_ref
    except ValueError:
        return None
