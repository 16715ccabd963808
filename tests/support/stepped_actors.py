"""Programs that run one small step at a time: each is a thread that stops at every question to the log, until it may go on.

So a random scheduler can freeze or kill it between any two of them, and the same seed gives the same run.
"""

import threading
from collections.abc import Callable


class KilledError(BaseException):
    """The program was killed where it stood; it is none that anybody handles."""


class SteppedActor:
    """Runs `work(pause)`, which calls `pause` wherever it may be frozen or killed."""

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Callable[[], None]], None]) -> None:
        try:
            self._pause(first=True)
            work(self._pause)
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001  # shown by the one who steps
            self.error = error
        self._stopped.release()

    def _pause(self, *, first: bool = False) -> None:
        if not first:
            self._stopped.release()
        self._go.acquire()
        if self._killed:
            raise KilledError

    def step(self) -> None:
        """Let it run to its next question. Raises what ended it."""
        self._go.release()
        self._stopped.acquire()
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        """End it where it stands."""
        self._killed = True
        self._go.release()
        self._thread.join()
