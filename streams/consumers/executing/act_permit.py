"""Whether the last look at the log still allows an act; checked right before each request that changes something.

The executor opens the permit when it reads the log, and a handler checks it before each change. Only the instant between the
check and the request is left, and nothing waits in it.
"""

import time
from collections.abc import Callable
from typing import NoReturn

from schemas.units import Seconds
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import TryAgain

# Longer than a client waits for an answer, so that a slow server keeps nobody from acting.
LASTS = Seconds(15.0)


class ActPermit:
    """The permit of one executor; it is open for `LASTS` after `open`, as long as the Lease is held, if there is one.

    `clock` counts seconds, and goes on while the process is frozen.
    """

    def __init__(self, lease: HolderLease | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease, self._clock = lease, clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether no other instance acts."""
        return self.lease is None or self.lease.held

    def open(self) -> None:
        """The conditions for acting are being checked now."""
        self._until = self._clock() + LASTS

    def check(self, doing: str, to: str) -> None:
        """Raises TryAgain if the conditions must be checked again first. The arguments are those of the error."""
        if not self.held:
            _refuse(doing, to, "the Lease was lost meanwhile")
        # The process may have been frozen since it read the log (SIGSTOP, a paused machine): by now the decision may have
        # expired, a pause may be in force, or another instance may have taken over.
        if self._clock() >= self._until:
            _refuse(doing, to, f"the last look at the log is more than {LASTS:g} s old")


def _refuse(doing: str, to: str, answer: str) -> NoReturn:
    raise TryAgain(doing=doing, to=to, answer=answer, after=Seconds(0.0))
