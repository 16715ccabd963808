"""Quantities against Kubernetes' own, worked cases, and what holds for all of them."""

import contextlib
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import exact_quantity
from schemas.exact_quantity import Form, NotAQuantityError, Quantity
from tests.support import quantities
from tests.support.vectors import ROOT

GOLDEN = ROOT.parent / "ca" / "quantity.json"
SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]


def golden() -> list[Any]:
    if not GOLDEN.exists():
        return [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=f"no vectors at '{GOLDEN}'; set ULLAGE_SHARED"))]
    return [pytest.param(vector, id=vector["id"]) for vector in json.loads(GOLDEN.read_text())]


def figures(found: Quantity) -> dict[str, int]:
    return {"value": found.whole, "milli_value": found.milli}


@pytest.mark.parametrize("vector", golden())
def test_a_quantity_means_what_it_means_to_kubernetes(vector: Any) -> None:
    expected = vector["expected"]
    if expected["error"]:
        with pytest.raises(NotAQuantityError):
            exact_quantity.parse(vector["inputs"]["text"])
    else:
        found = figures(exact_quantity.parse(vector["inputs"]["text"]))
        assert {name: found[name] for name in expected if name != "error"} == {n: v for n, v in expected.items() if n != "error"}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        ("100000000000000", "100T"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("-8Mi", "-8Mi"),
        ("1e3", "1e3"),
        ("1500e-3", "1500e-3"),
        ("100e6", "100e6"),
        ("12.345", "12.345"),  # what looks canonical to Kubernetes is written back as it came
        ("0.4n", "1n"),
        ("1e4294967299", "1e4294967299"),
        ("Ki", "0"),
    ],
)
def test_a_quantity_is_written_as_kubernetes_writes_it(text: str, canonical: str) -> None:
    assert exact_quantity.parse(text).text == canonical


@pytest.mark.parametrize(
    ("amount", "form", "text"),
    [
        (262144000, Form.BINARY, "250Mi"),
        (131072000, Form.BINARY, "125Mi"),
        (764046746, Form.BINARY, "764046746"),
        (10**14, Form.BINARY, "97656250000Ki"),
        (1000, Form.BINARY, "1k"),
        (1024, Form.BINARY, "1Ki"),
        (33333333333, Form.EXPONENT, "33333333333"),
        (1500000, Form.EXPONENT, "1500e3"),
        (0, Form.BINARY, "0"),
    ],
)
def test_whole_amounts_are_written_in_their_form(amount: int, form: Form, text: str) -> None:
    assert exact_quantity.of_whole(amount, form).text == text


def test_what_does_not_fit_64_bits_counts_as_it_does_in_kubernetes() -> None:
    most = 2**63 - 1
    assert (exact_quantity.parse("1e99999999").whole, exact_quantity.parse("1e99999999").milli) == (0, 0)
    assert exact_quantity.parse("7Ei").milli == exact_quantity.parse("1Ei").milli == -(2**63)
    assert exact_quantity.parse("99999999999Ei").whole == most


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("10000000000000000", -8446744073709551616),
        ("9500000000000000", -8946744073709551616),
        ("10Pi", -7187745005283311616),
        ("9Pi", -8313644912125935616),
        ("9223372036854775807", -1000),
        ("10P", 0),
        ("9500T", 0),
    ],
)
def test_thousandths_beyond_64_bits_wrap_or_vanish_and_never_saturate(text: str, milli: int) -> None:
    """Figures printed by `MilliValue` of k8s.io/apimachinery v0.37.2."""
    assert exact_quantity.parse(text).milli == milli


@pytest.mark.parametrize("text", ["1e99999999", "1e-99999999", "-1e2147483647", "9" * 200 + "e99999999", "0." + "0" * 200 + "1"])
def test_reading_takes_no_longer_than_the_text_is_long(text: str) -> None:
    exact_quantity.parse(text)


def test_a_text_that_is_longer_than_any_quantity_is_refused() -> None:
    with pytest.raises(NotAQuantityError, match="at most 256 characters here, not 300"):
        exact_quantity.parse("1" * 300)


@pytest.mark.parametrize("value", [True, [], {}, b"1", 10**100, float("nan"), float("inf")])
def test_what_is_no_quantity_in_json_is_refused(value: object) -> None:
    with pytest.raises(NotAQuantityError):
        exact_quantity.read(value)


@pytest.mark.parametrize(("value", "milli"), [(1, 1000), (0.25, 250), (1e-07, 1), (None, 0), (" 2 ", 2000)])
def test_numbers_and_null_of_json_are_quantities(value: object, milli: int) -> None:
    assert exact_quantity.read(value).milli == milli


def test_refusals_are_in_kubernetes_words() -> None:
    for text, words in (
        ("1_000", "must match the regular expression"),
        ("1K", "parse quantity's suffix"),
        (".e-20", "numeric part"),
    ):
        with pytest.raises(NotAQuantityError, match=words):
            exact_quantity.parse(text)


@given(st.integers(0, 10**12), st.integers(0, 999), st.sampled_from(SUFFIXES))
def test_a_quantity_is_its_number_times_its_suffix_rounded_up(whole: int, thousandths: int, suffix: str) -> None:
    text = f"{whole}.{thousandths:03}{suffix}"
    factor = {"e3": Fraction(1000), "E-2": Fraction(1, 100)}.get(suffix) or Fraction(quantities.quantity(f"1{suffix}"))
    exact = (whole + Fraction(thousandths, 1000)) * factor
    found = exact_quantity.parse(text)
    if 0 <= exact < 2**63:
        assert found.nano == -(-(exact * 10**9) // 1)
        assert found.whole == -(-exact // 1)


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(list(Form)))
def test_what_is_written_is_read_as_the_same(amount: int, form: Form) -> None:
    for found in (exact_quantity.of_whole(amount, form), exact_quantity.of_milli(amount, form)):
        assert exact_quantity.parse(found.text).nano == found.nano


@given(st.text(max_size=300))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    with contextlib.suppress(NotAQuantityError):
        assert isinstance(exact_quantity.parse(text), Quantity)


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("500m", 500), ("2", 2000), ("1Gi", 1024**3 * 1000), ("1k", 10**6), ("1.5", 1500), ("100u", 1), ("1e3", 10**6),
        ("1E", 10**21), ("-0.0001", -1), ("0", 0), (".5", 500), ("128974848", 128_974_848_000), ("123Mi", 123 * 2**20 * 1000),
    ],
)  # fmt: skip
def test_thousandths_of_any_size_are_rounded_away_from_zero(text: str, thousandths: int) -> None:
    assert exact_quantity.parse(text).thousandths == thousandths


@pytest.mark.parametrize("text", ["", "1 Gi", "x", "1gi", "1KB", "1e", "--1", "1.2.3"])
def test_what_kubernetes_takes_for_no_quantity_is_none(text: str) -> None:
    with pytest.raises(NotAQuantityError):
        exact_quantity.parse(text)


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (100, "100m"), (1000, "1"), (10**6, "1k"), (1_500_000, "1500"), (187_904_819_200, "187904819200m")],
)
def test_the_text_has_the_largest_suffix_that_leaves_a_whole_number(milli: int, text: str) -> None:
    assert exact_quantity.of_milli(milli).text == text


@given(st.integers(-(10**20), 10**20))
def test_the_text_of_thousandths_is_read_as_what_it_was_made_of(milli: int) -> None:
    assert exact_quantity.parse(exact_quantity.of_milli(milli).text).thousandths == milli
