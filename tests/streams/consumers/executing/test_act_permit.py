"""The permit that handlers ask before they change anything: what was looked at must be fresh, and the Lease held."""

import pytest

from streams.consumers.executing.handler import LASTS, ActPermit
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import TryAgain
from tests.support.api_objects import ApiObjects


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_closed_before_the_first_look_and_ends_by_itself() -> None:
    clock = Clock()
    permit = ActPermit(clock=clock)
    with pytest.raises(TryAgain, match="evicting 'shop/cart' did not work: the last look at the log is more than 15 s old"):
        permit.check("evicting", "shop/cart")
    permit.open()
    clock.now = LASTS - 0.1
    permit.check("evicting", "shop/cart")
    clock.now = LASTS
    with pytest.raises(TryAgain):
        permit.check("evicting", "shop/cart")


def test_it_says_that_the_lease_was_lost() -> None:
    clock = Clock()
    lease = HolderLease(ApiObjects(), "ullage-evict", "one", clock=clock)
    permit = ActPermit(lease, clock=clock)
    permit.open()
    with pytest.raises(TryAgain, match="the Lease was lost meanwhile"):
        permit.check("evicting", "shop/cart")
    lease.renew()
    permit.check("evicting", "shop/cart")
