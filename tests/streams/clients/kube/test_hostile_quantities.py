"""Quantities that a tenant may write: refused at once where nobody could compute with them."""

from fractions import Fraction

import pytest

from streams.clients.kube import quantities
from streams.clients.kube.vpa_status_client import (
    RecommendedContainerResources,
    RecommendedPodResources,
    VpaStatus,
    same,
)

HOSTILE = [
    "1e99999999",
    "-1e99999999",
    "9" * 1_000_000,
    "0." + "1" * 100_000,
    "1e31",
    "1e9999999999999999999Ki",
    "NaN",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_a_quantity_that_nobody_could_compute_with_is_refused(text: str) -> None:
    for parse in (quantities.parse, quantities.exact):
        with pytest.raises(ValueError, match=r"quantity|number"):
            parse(text)


def test_every_quantity_that_kubernetes_itself_writes_is_read() -> None:
    assert quantities.exact("9223372036854775807") == 2**63 - 1
    assert quantities.exact("1n") == Fraction(1, 10**9)
    assert quantities.exact("7Ei") == 7 * 2**60
    assert quantities.exact("-1.5e3") == -1500


def test_what_is_finer_than_a_billionth_is_read_at_once_as_one_billionth() -> None:
    assert quantities.exact("1e-99999999") == Fraction(1, 10**9)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_a_status_with_such_a_quantity_is_compared_as_a_text(text: str) -> None:
    def status(cpu: str) -> VpaStatus:
        container = RecommendedContainerResources(container_name="app", target={"cpu": cpu})
        return VpaStatus(recommendation=RecommendedPodResources([container]))

    assert same(status(text), status(text))
    assert not same(status(text), status("1"))
