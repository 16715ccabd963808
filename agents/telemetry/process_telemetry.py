"""One process's telemetry from start to end: logging, the line that it started, metrics and health, the line that it ended.

Used by every command that runs until stopped. Passes every error on.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agents.telemetry import logging_setup
from agents.telemetry.health_server import HealthServer


@contextmanager
def told(
    component: str, server: HealthServer, *, settings: Mapping[str, object], listen: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[None]:
    """Tell of this process while the block runs. `listen` is host and port; port 0 serves nothing."""
    log = logging_setup.set_up(component)
    with server:
        if listen[1]:
            server.listen(*listen)
        logging_setup.started(log, settings)
        try:
            yield
        except Exception as error:
            logging_setup.failed(log, doing=f"running as {component}", error=error)
            logging_setup.ended(log, code=1, reason=f"{type(error).__name__}: {error}")
            raise
        except BaseException as asked:
            logging_setup.ended(log, code=0, reason=f"asked to: {type(asked).__name__} {asked}".rstrip())
            raise
        logging_setup.ended(log, code=0, reason="done")
