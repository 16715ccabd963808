"""A certificate is changed without a moment in which those who check it would refuse it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schemas.units import Seconds
from streams.errors import BadInput
from streams.serving.certificate_making import ServingCertificate, self_made
from streams.serving.certificate_rotation import CertificateFiles, CertificateRotation
from streams.serving.https_server import CertificateHolder

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER = (self_made(("hook",), AT) for _ in range(2))


class Holder(CertificateHolder):
    """Remembers what it shows."""

    shown: bytes = b""

    def load(self, certificate: bytes, key: bytes) -> None:
        super().load(certificate, key)
        self.shown = certificate


@dataclass
class Scene:
    given: ServingCertificate | Exception = ONE
    now: float = 0.0
    ends: list[datetime] = field(default_factory=list)
    refusals: int = 0

    def __post_init__(self) -> None:
        self.holder = Holder()
        self.keeper = CertificateRotation(self, self.holder, self, settle=Seconds(15.0), clock=lambda: self.now)

    def __str__(self) -> str:
        return "the test's source"

    def current(self, _at: datetime) -> ServingCertificate:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given

    def shown(self, ends: datetime) -> None:
        self.ends.append(ends)

    def refused(self) -> None:
        self.refusals += 1


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.keeper.look(AT)
    return made


def test_the_first_one_is_shown_at_once(scene: Scene) -> None:
    assert scene.holder.shown == ONE.certificate
    assert scene.ends == [AT + timedelta(days=7)]
    assert scene.keeper.authorities() == [ONE.authorities]
    assert scene.keeper.reasons(AT) == []


def test_the_next_one_is_shown_only_when_its_authority_was_trusted_for_a_while(scene: Scene) -> None:
    scene.given = OTHER
    scene.keeper.look(AT)
    assert scene.keeper.authorities() == [ONE.authorities, OTHER.authorities]
    scene.now = 100.0
    assert scene.holder.shown == ONE.certificate  # nobody was told yet, however long ago it came
    scene.keeper.trusted()
    scene.now = 114.9
    scene.keeper.trusted()
    assert scene.holder.shown == ONE.certificate
    scene.now = 115.0
    scene.keeper.trusted()
    assert scene.holder.shown == OTHER.certificate
    assert scene.keeper.authorities() == [OTHER.authorities]


def test_one_by_the_same_authority_need_not_wait(scene: Scene) -> None:
    scene.given = ServingCertificate(OTHER.certificate, OTHER.key, ONE.authorities)
    scene.keeper.look(AT)
    scene.keeper.trusted()
    assert scene.holder.shown == OTHER.certificate


@pytest.mark.parametrize(
    "bad",
    [
        OSError("no such file"),
        BadInput("rubbish"),
        ServingCertificate(OTHER.certificate, ONE.key, OTHER.authorities),
        ServingCertificate(OTHER.certificate, OTHER.key, b"-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n"),
    ],
)
def test_what_cannot_be_used_changes_nothing_and_is_counted(scene: Scene, bad: ServingCertificate | Exception) -> None:
    scene.given = bad
    scene.keeper.look(AT)
    scene.keeper.trusted()
    assert scene.holder.shown == ONE.certificate
    assert scene.keeper.authorities() == [ONE.authorities]
    assert scene.refusals == 1
    assert scene.keeper.reasons(AT) == []


def test_a_certificate_that_has_ended_is_no_certificate(scene: Scene) -> None:
    (reason,) = scene.keeper.reasons(AT + timedelta(days=7))
    assert "ended at 2026-01-08" in reason


def test_without_any_it_says_why() -> None:
    scene = Scene(given=OSError("no such file 'tls.crt'"))
    scene.keeper.look(AT)
    assert scene.keeper.reasons(AT) == ["there is no certificate to serve with: the test's source: no such file 'tls.crt'"]


@pytest.mark.parametrize("content", [None, b"", b"rubbish", bytes(range(256))])
def test_what_is_wrong_with_files_is_told_with_their_names(tmp_path: Path, content: bytes | None) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    if content is not None:
        certificate.write_bytes(content)
        key.write_bytes(content)
    keeper = CertificateRotation(CertificateFiles(certificate, key), CertificateHolder(), Scene())
    keeper.look(AT)
    (reason,) = keeper.reasons(AT)
    assert f"the files '{certificate}' and '{key}': " in reason


def test_one_that_was_taken_back_before_it_was_shown_is_forgotten(scene: Scene) -> None:
    scene.given = OTHER
    scene.keeper.look(AT)
    scene.keeper.trusted()
    scene.given = ONE
    scene.keeper.look(AT)
    scene.now = 1000.0
    scene.keeper.trusted()
    assert scene.holder.shown == ONE.certificate
