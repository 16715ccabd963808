"""The simulated cluster's API server: where it listens, and that it answers as a real one."""

import pytest
from kubernetes import client as official

from streams.clients.kube.api import Api
from streams.consumers.executing import holder_lease
from streams.errors import BadInput
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with SimulatedServer(SimulatedCluster(name="demo", seed=1, nodes=(), deployments=())) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(BadInput, match=f"cannot answer on port {port} .*another with --port"):
            SimulatedServer(SimulatedCluster(name="demo", seed=1, nodes=(), deployments=()), port)


def test_its_lease_can_be_read_as_a_real_one() -> None:
    cluster = SimulatedCluster(name="demo", seed=1, nodes=(), deployments=())
    with SimulatedServer(cluster) as server:
        settings = official.Configuration(host=server.url, retries=False)
        settings.proxy = None
        api = Api(official.ApiClient(settings))
        try:
            lease = holder_lease.leases(api, "ullage").find("ullage-webhook")
        finally:
            api.close()
    assert lease is not None
    assert lease["spec"]["renewTime"]
