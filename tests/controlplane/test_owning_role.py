"""What was registered with the API server goes with the ClusterRole, though the process can no longer delete it."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from streams.clients.kube import json_objects
from streams.clients.kube.api import Api
from streams.consumers.metrics_api import api_service
from streams.consumers.metrics_api.api_service import ApiServiceKeeper, ServedAt
from streams.consumers.webhook import registration
from streams.consumers.webhook.registration import Registrar, Registration
from streams.serving.certificate_making import self_made
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

NOW = datetime.now(UTC)  # by it the certificate is made


@pytest.mark.parametrize("what", ["webhook", "metrics API"])
def test_a_registration_goes_with_the_role(what: str, plane: Plane, world: World) -> None:
    api, name = Api(cluster_factory.connection(ClusterSettings(kubeconfig=plane.kubeconfig))), f"ours-{uuid4().hex[:8]}"
    made = plane.ask.post(json_objects.PATH, {"metadata": {"name": name}, "rules": []})
    authorities = [self_made((name,), NOW).authorities]
    if what == "webhook":
        where = {"service": {"namespace": world.namespace, "name": "hook", "port": 443}}
        hooks = json_objects.owned(api, registration.PATH, "MutatingWebhookConfiguration", name)
        Registrar(hooks, Registration(name, where, world.namespace)).ensure(authorities, NOW)
        path = f"{registration.PATH}/{name}"
    else:
        served = ServedAt(world.namespace, "metrics", 443)
        services = json_objects.owned(api, api_service.PATH, "APIService", name)
        ApiServiceKeeper(services, served).ensure(authorities, NOW)
        path = f"{api_service.PATH}/{served.name}"
    (owner,) = plane.ask.get(path)["metadata"]["ownerReferences"]
    assert owner["uid"] == made["metadata"]["uid"]
    plane.ask.delete(f"{json_objects.PATH}/{name}")
    wait_for(lambda: plane.ask.find(path) is None, what=f"the registration of the {what} goes with its role")
    api.close()
