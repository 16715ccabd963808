"""Who counts as the aggregation layer, by what the cluster says."""

from typing import Any

import pytest

from streams.consumers.metrics_api import metrics_endpoint
from streams.consumers.metrics_api.metrics_endpoint import FrontProxyTrust
from streams.errors import BadInput
from tests.support.api_objects import ApiObjects

CERTIFICATE = {"subject": ((("organizationName", "x"),), (("commonName", "aggregator"),))}


def said(**data: str) -> ApiObjects:
    made = ApiObjects()
    told: dict[str, Any] = {
        "requestheader-client-ca-file": "PEM",
        "requestheader-allowed-names": '["aggregator"]',
        "requestheader-username-headers": '["X-Remote-User", "X-User"]',
        **{key.replace("_", "-"): value for key, value in data.items()},
    }
    made.create(metrics_endpoint.CONFIG_MAP, {"metadata": {}, "data": told})
    return made


def test_the_cluster_says_whom_to_believe() -> None:
    assert metrics_endpoint.read_trust(said()) == FrontProxyTrust(b"PEM", ("aggregator",), ("X-Remote-User", "X-User"))
    assert metrics_endpoint.read_trust(said(requestheader_username_headers="")).user_headers == ("X-Remote-User",)


def test_a_cluster_without_an_aggregation_layer_is_told_apart() -> None:
    with pytest.raises(BadInput, match="is the aggregation layer on"):
        metrics_endpoint.read_trust(said(requestheader_client_ca_file=""))
    with pytest.raises(BadInput, match="is the aggregation layer on"):
        metrics_endpoint.read_trust(ApiObjects())
    with pytest.raises(BadInput, match="which is no list"):
        metrics_endpoint.read_trust(said(requestheader_allowed_names="aggregator"))


def test_the_certificates_name_and_the_users_header_both_count() -> None:
    trust, told = FrontProxyTrust(b"PEM", ("aggregator",), ("X-Remote-User", "X-User")), {"X-User": "hpa"}
    assert metrics_endpoint.user_of(trust, CERTIFICATE, told) == "hpa"
    assert metrics_endpoint.user_of(trust, CERTIFICATE, {}) is None
    assert metrics_endpoint.user_of(trust, {"subject": ((("commonName", "x"),),)}, told) is None
    assert metrics_endpoint.user_of(trust, None, told) is None
    assert metrics_endpoint.user_of(trust, {}, told) is None
    anybody = FrontProxyTrust(b"PEM", (), ("X-User",))
    assert metrics_endpoint.user_of(anybody, {"subject": ((("commonName", "x"),),)}, told) == "hpa"
