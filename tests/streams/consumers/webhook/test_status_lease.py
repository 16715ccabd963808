"""The Lease that says that admission is at work, and by which the last replica knows that it is the last."""

from datetime import UTC, datetime, timedelta

import pytest

from streams.consumers.webhook.registration import StatusLease
from streams.errors import Unreachable
from tests.support.api_objects import ApiObjects

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def objects() -> ApiObjects:
    return ApiObjects()


def test_it_is_made_and_renewed(objects: ApiObjects) -> None:
    lease = StatusLease(objects, "hook", "one")
    assert lease.renew(AT)
    assert lease.renew(AT + timedelta(seconds=5))
    spec = objects.held["hook"]["spec"]
    assert spec == {"holderIdentity": "one", "leaseDurationSeconds": 10, "renewTime": "2026-01-01T00:00:05.000000Z"}


def test_what_others_wrote_on_it_stays(objects: ApiObjects) -> None:
    objects.create("hook", {"metadata": {"name": "hook", "annotations": {"theirs": "x"}}, "spec": {"leaseTransitions": 3}})
    StatusLease(objects, "hook", "one").renew(AT)
    held = objects.held["hook"]
    assert held["metadata"]["annotations"]["theirs"] == "x"
    assert held["spec"]["leaseTransitions"] == 3


def test_only_the_last_replica_that_is_alive_is_the_last(objects: ApiObjects) -> None:
    one, other, dead = (StatusLease(objects, "hook", name) for name in ("one", "other", "dead"))
    dead.renew(AT - timedelta(minutes=1))
    one.renew(AT)
    other.renew(AT)
    assert not one.leave(AT)
    assert "hook" in objects.held
    assert other.leave(AT)
    assert objects.held == {}
    assert other.leave(AT)


def test_a_replica_that_leaves_and_comes_back_counts_again(objects: ApiObjects) -> None:
    one, other = (StatusLease(objects, "hook", name) for name in ("one", "other"))
    one.renew(AT)
    other.renew(AT)
    one.leave(AT)
    one.renew(AT)
    assert not other.leave(AT)


def test_being_overtaken_is_as_good_as_a_renewal_and_an_absent_server_is_not(objects: ApiObjects) -> None:
    class Overtaken(ApiObjects):
        def find(self, name: str) -> dict[str, object] | None:
            found = super().find(name)
            self.held.setdefault(name, {"metadata": {}})["metadata"]["resourceVersion"] = "later"
            return found

    assert not StatusLease(Overtaken(), "hook", "one").renew(AT)
    objects.away = True
    with pytest.raises(Unreachable):
        StatusLease(objects, "hook", "one").renew(AT)
