"""Where certificates come from: files of others, a folder, and a Secret that several replicas share."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from streams.errors import BadInput, GiveUp, TryAgain, Unreachable
from streams.serving import certificate_making
from streams.serving.certificate_making import ServingCertificate
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


class Contested:
    """The places of a certificate, a clock, and somebody who has their way after each write of ours."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.objects, self.folder, self.now = ApiObjects(), folder / "made", 0.0
        self.source: CertificateFolder | CertificateSecret
        if kind == "folder":
            self.source = CertificateFolder(self.folder, RENEWAL, clock=lambda: self.now)
        else:
            self.source = CertificateSecret(self.objects, "certificate", RENEWAL, clock=lambda: self.now)

    def spoilt(self) -> bool:
        """Empties it; False if there is nothing in it already."""
        there = self.objects.held.get("certificate", {}).get("data")
        files = [file for file in self.folder.glob("*") if file.stat().st_size]
        if there:
            self.objects.change("certificate", "gitops", data={})
        for file in files:
            file.write_bytes(b"")
        return bool(there or files)

    def deleted(self) -> bool:
        """Deletes it; False if it is gone already."""
        files = list(self.folder.glob("*"))
        for file in files:
            file.unlink()
        return bool(self.objects.held.pop("certificate", None) or files)

    def put_back(self, stale: ServingCertificate) -> None:
        """Puts back a certificate that is due for renewal, as git has it."""
        contents = (stale.certificate, stale.key, stale.authorities)
        named = zip(("tls.crt", "tls.key", "ca.crt"), contents, strict=True)
        if isinstance(self.source, CertificateSecret):
            data = {name: base64.b64encode(content).decode() for name, content in named}
            self.objects.change("certificate", "gitops", data=data)
        else:
            for name, content in named:
                (self.folder / name).write_bytes(content)


@pytest.fixture(params=["folder", "secret"])
def contested(request: pytest.FixtureRequest, tmp_path: Path) -> Contested:
    return Contested(request.param, tmp_path)


@pytest.mark.parametrize("take", [Contested.spoilt, Contested.deleted])
def test_what_others_take_away_again_and_again_is_put_back_ever_more_seldom_and_not_made_anew(
    contested: Contested, take: Callable[[Contested], bool]
) -> None:
    """A new one each five seconds, of which none was ever shown, and each of which left its authority in the bundle."""
    made, writes = [contested.source.current(AT)], list[float]()
    with capture_logs() as lines:
        for _ in range(6 * 720):
            if take(contested):
                writes.append(contested.now)
            contested.now += 5.0
            made.append(contested.source.current(AT + timedelta(seconds=contested.now)))
    # The first deletion may be a wish for a new one.
    assert made[1:] == [made[1]] * (6 * 720)
    assert (made[0] == made[1]) is (take is Contested.spoilt)
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert 8 <= len(writes) <= 20
    assert max(pauses) == 1800.0
    warned = ("warning", "somebody else keeps changing an object of ours")
    assert {(line["log_level"], line["event"]) for line in lines} == {warned}


def test_who_deletes_it_gets_a_new_one_as_where_its_key_has_become_known(contested: Contested) -> None:
    made = []
    for hours in (0, 1, 5):
        made.append(contested.source.current(AT + timedelta(hours=hours)))
        contested.deleted()
        made.append(contested.source.current(AT + timedelta(hours=hours)))
        assert contested.source.current(AT + timedelta(hours=hours)) == made[-1]
    first, new, _, again, _, newest = made
    assert again == new, "the second deletion within three hours"
    assert len({first.certificate, new.certificate, newest.certificate}) == 3


def test_one_that_is_due_for_renewal_is_made_anew_once_though_others_put_it_back(contested: Contested) -> None:
    stale = contested.source.current(AT)
    due = AT + timedelta(days=6, hours=1)
    renewed = contested.source.current(due)
    assert renewed != stale
    for _ in range(100):
        contested.put_back(stale)
        contested.now += 5.0
        assert contested.source.current(due + timedelta(seconds=contested.now)) == renewed
    assert contested.source.current(due + timedelta(days=6, hours=1)) not in (stale, renewed)


def test_a_secret_that_is_refused_is_made_once_and_tried_in_pauses_that_grow() -> None:
    objects, now, told = ApiObjects(), 0.0, set()
    source = CertificateSecret(objects, "certificate", RENEWAL, clock=lambda: now)
    objects.refusal = GiveUp(doing="creating", to="certificate", answer="403 forbidden")
    for _ in range(720):
        with pytest.raises(GiveUp) as caught:
            source.current(AT)
        told.add(str(caught.value))
        now += 5.0
    assert told == {"creating 'certificate' did not work: 403 forbidden"}
    assert objects.asked <= 20
    objects.refusal, now = None, now + 300.0
    assert source.current(AT) == CertificateSecret(objects, "certificate", RENEWAL).current(AT)


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
