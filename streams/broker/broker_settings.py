"""What can be chosen about the embedded broker, with defaults for one small machine."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from schemas.units import Seconds
from streams.broker.broker_security import BrokerSecurity
from streams.errors import BadInput

SMALLEST_HEAP_MB = 128


def user_cache() -> Path:
    """Where fetched jars are kept: $ULLAGE_CACHE, else ullage in $XDG_CACHE_HOME, else ~/.cache/ullage."""
    own = os.environ.get("ULLAGE_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ullage"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`data` None means a temporary folder that is deleted at the end; `port` 0 means any free one.

    `quick` starts faster and runs slower (only the first-level compiler of Java), which suits tests. Without `security` every
    program on this machine may do everything.
    """

    data: Path | None = None
    port: int = 0
    heap_mb: int = 512
    quick: bool = False
    cache: Path = field(default_factory=user_cache)
    min_free_mb: int = 1024
    start_timeout: Seconds = Seconds(90.0)
    security: BrokerSecurity | None = None

    def __post_init__(self) -> None:
        """Raises BadInput for a value no broker could start with."""
        if not 0 <= self.port <= 65535:  # noqa: PLR2004  # stated in the sentence below
            msg = f"port {self.port} is none: a port is between 0 (any free one) and 65535"
            raise BadInput(msg)
        if self.heap_mb < SMALLEST_HEAP_MB:
            msg = f"a heap of {self.heap_mb} MB is too small: Kafka needs at least {SMALLEST_HEAP_MB}"
            raise BadInput(msg)
