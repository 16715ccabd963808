"""The authorities that an API server is told to trust, where several replicas write one bundle.

Ours are always in it. Others that are there may be another replica's, so they stay; only those are dropped that have ended or
that no replica has claimed for a while.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from schemas.units import Seconds
from streams.errors import BadInput
from streams.serving import certificates

_UNCLAIMED = Seconds(600.0)
"""How long an authority that we do not know stays: another replica may show its certificate, or be about to."""


class CaBundle:
    """The bundle as this replica would have it. `clock` counts real seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._foreign: dict[bytes, float] = {}
        """Authorities that are not ours, and since when we have seen them."""

    def merged(self, there: Iterable[bytes], ours: Sequence[bytes], at: datetime) -> bytes:
        """What should be there, given the bundles that are. Raises BadInput for one of ours that cannot be read."""
        known = {certificate for bundle in ours for certificate in certificates.singles(bundle)}
        foreign = {certificate for bundle in there for certificate in _readable(bundle)} - known
        now = self._clock()
        self._foreign = {certificate: self._foreign.get(certificate, now) for certificate in foreign}
        kept = [each for each, since in self._foreign.items() if now - since < _UNCLAIMED] if ours else list(foreign)
        return certificates.joined([*ours, *kept], at)


def _readable(bundle: bytes) -> list[bytes]:
    """What cannot be read vouches for nothing."""
    try:
        return certificates.singles(bundle)
    except BadInput:
        return []
