"""The bundle of authorities that an API server trusts, written by several replicas: ours are always in it."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from schemas.units import Seconds
from streams.errors import BadInput
from streams.serving import certificates

_UNCLAIMED = Seconds(600.0)  # an authority that we do not know stays so long: another replica may show its certificate


class CaBundle:
    """The bundle as this replica would have it. `clock` counts real seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._foreign: dict[bytes, float] = {}
        """Authorities that are not ours, and since when we have seen them."""

    def merged(self, there: Iterable[bytes], ours: Sequence[bytes], at: datetime) -> bytes:
        """The wanted bundle, given the present ones. Raises BadInput for one of ours that cannot be read."""
        own = {certificate for bundle in ours for certificate in certificates.singles(bundle)}
        foreign = {certificate for bundle in there for certificate in _readable(bundle)} - own
        now = self._clock()
        self._foreign = {certificate: self._foreign.get(certificate, now) for certificate in foreign}
        kept = (
            [certificate for certificate, since in self._foreign.items() if now - since < _UNCLAIMED] if ours else list(foreign)
        )
        return certificates.joined([*ours, *kept], at)


def _readable(bundle: bytes) -> list[bytes]:
    """The authorities in a bundle; none if it cannot be read."""
    try:
        return certificates.singles(bundle)
    except BadInput:
        return []
