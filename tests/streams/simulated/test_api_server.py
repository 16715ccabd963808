"""The simulated cluster's API server: where it listens."""

import pytest

from streams.errors import BadInput
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with SimulatedServer(SimulatedCluster(name="demo", seed=1, nodes=(), deployments=())) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(BadInput, match=f"cannot answer on port {port} .*another with --port"):
            SimulatedServer(SimulatedCluster(name="demo", seed=1, nodes=(), deployments=()), port)
