"""Certificates of our own: who they are for, until when they hold, and whom one has to trust."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import BadInput
from streams.serving import certificate_making
from streams.serving.certificate_making import CaBundle, ServingCertificate, joined, self_made

AT = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("hook.ullage.svc", "127.0.0.1")


def test_a_certificate_holds_for_a_week_and_for_all_its_names() -> None:
    made = self_made(NAMES, AT)
    assert made.ends == AT + timedelta(days=7)
    assert made.covers(NAMES)
    assert not made.covers(["other.ullage.svc"])
    assert certificate_making.fit(made)


def test_no_two_certificates_have_one_authority_and_the_key_of_neither_is_kept() -> None:
    one, other = self_made(NAMES, AT), self_made(NAMES, AT)
    assert one.authorities != other.authorities
    assert b"PRIVATE KEY" not in one.authorities + one.certificate
    assert one.key.count(b"BEGIN PRIVATE KEY") == 1
    assert not certificate_making.fit(ServingCertificate(one.certificate, other.key, one.authorities))
    assert not certificate_making.fit(ServingCertificate(one.certificate, one.key, other.authorities))


def test_an_authority_signs_nothing_but_one_certificate_below_it() -> None:
    authority = certificate_making.read(self_made(NAMES, AT).authorities)[0]
    constraints = authority.extensions.get_extension_for_class(certificate_making.x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)


def test_openssl_accepts_what_we_make() -> None:
    context = ssl.create_default_context(cadata=self_made(NAMES, AT).authorities.decode())
    assert context.cert_store_stats()["x509_ca"] == 1


def test_joined_authorities_are_there_once_and_only_while_they_hold() -> None:
    old, new = self_made(NAMES, AT - timedelta(days=5)), self_made(NAMES, AT)
    both = joined([old.authorities, new.authorities, old.authorities], AT)
    assert len(certificate_making.read(both)) == 2
    assert joined([new.authorities, old.authorities], AT) == both
    assert joined([both], AT + timedelta(days=2)) == joined([new.authorities], AT)
    assert joined([], AT) == b""


def test_a_bundle_keeps_the_newest_few_of_others_and_all_of_ours() -> None:
    """Whatever comes in, and however often: it grew by one at each look, up to the 200 KB that were seen."""
    ours = [self_made(NAMES, AT - timedelta(days=2)).authorities for _ in range(2)]
    others = [self_made(NAMES, AT - timedelta(hours=age)).authorities for age in range(12)]
    ended = self_made(NAMES, AT, timedelta(minutes=-1)).authorities
    bundle, there = CaBundle(clock=lambda: 0.0), b""
    for other in [*others, ended]:
        there = bundle.merged([there, other], ours, AT)
    assert set(certificate_making.singles(there)) == {*ours, *others[:8]}
    assert CaBundle(clock=lambda: 0.0).merged([there], ours, AT) == there
    assert len(certificate_making.read(CaBundle(clock=lambda: 0.0).merged(others, [], AT))) == 12, "nothing of ours is at stake"


@given(st.binary(max_size=200))
def test_rubbish_is_refused_as_such(rubbish: bytes) -> None:
    with suppress(BadInput):
        certificate_making.read(rubbish)
    with pytest.raises(BadInput):
        certificate_making.fit(ServingCertificate(rubbish, rubbish))
