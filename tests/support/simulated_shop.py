"""The demo's shop as a simulated cluster by itself, without the demo around it."""

from datetime import datetime

from streams.clients.cluster_port import AdmissionHook, admit_unchanged
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import DEPLOYMENTS, NODES


def demo_cluster(
    seed: int, *, start: datetime | None = None, name: str = "demo", admit: AdmissionHook = admit_unchanged
) -> SimulatedCluster:
    """The shop before its first pod; the first step creates them all."""
    return SimulatedCluster(name=name, seed=seed, start=start, nodes=NODES, deployments=DEPLOYMENTS, admit=admit)
