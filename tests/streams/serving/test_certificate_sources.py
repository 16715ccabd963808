"""Where certificates come from: files of others, a folder, and a Secret that several replicas share."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streams.errors import BadInput, TryAgain, Unreachable
from streams.serving import certificate_making
from streams.serving.certificate_rotation import (
    CertificateFiles,
    CertificateFolder,
    CertificateSecret,
    CertificateSource,
    Renewal,
)
from tests.support.api_objects import ApiObjects

AT = datetime(2026, 1, 1, tzinfo=UTC)
RENEWAL = Renewal(("hook.ullage.svc",))


@pytest.fixture(params=["folder", "secret"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> CertificateSource:
    if request.param == "folder":
        return CertificateFolder(tmp_path / "made", RENEWAL)
    return CertificateSecret(ApiObjects(), "certificate", RENEWAL)


def test_one_of_our_own_stays_until_a_day_before_its_end(source: CertificateSource) -> None:
    made = source.current(AT)
    assert made.ends == AT + timedelta(days=7)
    assert source.current(AT + timedelta(days=5, hours=23)) == made
    renewed = source.current(AT + timedelta(days=6))
    assert renewed != made
    assert renewed.ends == AT + timedelta(days=13)
    assert renewed.authorities != made.authorities
    assert source.current(AT + timedelta(days=6)) == renewed


def test_it_is_made_anew_for_other_names(tmp_path: Path) -> None:
    first = CertificateFolder(tmp_path, RENEWAL).current(AT)
    other = Renewal(("other.ullage.svc",))
    second = CertificateFolder(tmp_path, other).current(AT)
    assert second != first
    assert second.covers(["other.ullage.svc"])


def test_a_folder_that_was_half_written_or_spoilt_is_made_anew(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path, RENEWAL)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        folder.current(AT)
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(kept[: len(kept) // 2])
        again = folder.current(AT)
        assert certificate_making.fit(again)
        assert certificate_making.read(again.authorities)
    assert (tmp_path / "tls.key").stat().st_mode & 0o077 == 0


def test_replicas_share_a_secret_and_see_each_others_renewals() -> None:
    objects = ApiObjects()
    one, other = (CertificateSecret(objects, "certificate", RENEWAL) for _ in range(2))
    first = one.current(AT)
    assert other.current(AT) == first
    renewed = other.current(AT + timedelta(days=6, hours=1))
    assert one.current(AT + timedelta(days=6, hours=1)) == renewed
    assert objects.writes == 2
    assert objects.held["certificate"]["type"] == "kubernetes.io/tls"


def test_of_two_that_renew_at_one_time_one_wins_and_the_other_takes_that() -> None:
    objects = ApiObjects()
    one = CertificateSecret(objects, "certificate", RENEWAL)
    one.current(AT)
    late = CertificateSecret(_Late(objects, one), "certificate", RENEWAL)
    due = AT + timedelta(days=6, hours=1)
    with pytest.raises(TryAgain, match="409"):
        late.current(due)
    assert late.current(due) == one.current(due)


def test_a_secret_of_nonsense_is_replaced_and_what_else_is_in_it_stays() -> None:
    objects = ApiObjects()
    objects.create("certificate", {"metadata": {"name": "certificate"}, "data": {"tls.crt": "%", "mine": "eA=="}})
    made = CertificateSecret(objects, "certificate", RENEWAL).current(AT)
    assert certificate_making.fit(made)
    assert objects.held["certificate"]["data"]["mine"] == "eA=="
    objects.away = True
    with pytest.raises(Unreachable):
        CertificateSecret(objects, "certificate", RENEWAL).current(AT)


def test_files_are_taken_as_they_stand(tmp_path: Path) -> None:
    made = certificate_making.self_made(("hook",), AT)
    for name, content in (("crt", made.certificate), ("key", made.key), ("ca", made.authorities)):
        (tmp_path / name).write_bytes(content)
    found = CertificateFiles(tmp_path / "crt", tmp_path / "key", tmp_path / "ca").current(AT)
    assert found == made
    assert CertificateFiles(tmp_path / "crt", tmp_path / "key").current(AT).authorities == b""
    with pytest.raises(OSError, match="none"):
        CertificateFiles(tmp_path / "none", tmp_path / "key").current(AT)
    with pytest.raises(BadInput):
        _ = CertificateFiles(tmp_path / "key", tmp_path / "key").current(AT).ends


@dataclass
class _Late:
    """Objects whose reader is overtaken once between reading and writing."""

    objects: ApiObjects
    other: CertificateSecret
    overtaken: bool = False

    def find(self, name: str) -> dict[str, Any] | None:
        found = self.objects.find(name)
        if not self.overtaken:
            self.overtaken = True
            self.other.current(AT + timedelta(days=6, hours=1))
        return found

    def create(self, name: str, body: Any) -> dict[str, Any]:
        return self.objects.create(name, body)

    def replace(self, name: str, body: Any) -> dict[str, Any]:
        return self.objects.replace(name, body)

    def delete(self, name: str) -> bool:
        return self.objects.delete(name)
