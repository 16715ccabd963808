"""What `ullage consumer` says as it begins, and what makes it ready."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from agents.processes import consumer
from agents.settings.all_settings import ClusterSettings, Settings
from agents.telemetry.dependency_health import DependencyMonitor
from streams.clients.kube.json_objects import Json
from tests.torture.lease_server import LeaseServer


class OneLease(LeaseServer):
    """A webhook that renewed its Lease so long ago, or never began."""

    age: timedelta | None = None

    def _answer(self, method: str, path: str, body: Json) -> tuple[HTTPStatus, Json]:  # noqa: ARG002  # the whole API
        if self.age is None:
            return HTTPStatus.NOT_FOUND, {"kind": "Status", "reason": "NotFound"}
        renewed = datetime.now(UTC) - self.age
        return HTTPStatus.OK, {"metadata": {"name": "x", "uid": "1"}, "spec": {"renewTime": renewed.isoformat()}}


@pytest.fixture
def server() -> Iterator[OneLease]:
    server = OneLease()
    server.open()
    yield server
    server.close()


def test_an_evictor_is_ready_while_a_webhook_renews_its_lease(server: OneLease) -> None:
    dependencies = DependencyMonitor()
    dependencies.watch("the webhook", consumer.admission(Settings(cluster=ClusterSettings(name="demo", url=server.url))))
    dependencies.round()
    [reason] = dependencies.reasons()
    assert reason.startswith("the webhook is away for")
    assert "no webhook is at work" in reason
    server.age = timedelta(seconds=1)
    dependencies.round()
    assert dependencies.reasons() == []
    server.age = timedelta(minutes=10)
    dependencies.round()
    assert "was renewed 600 s ago" in dependencies.reasons()[0]


@pytest.mark.parametrize(
    ("names", "namespace", "told"),
    [
        (("resizer", "evictor"), "ullage", "acts while it holds the Lease ullage-resizer, ullage-evictor, else stands by"),
        (("resizer",), None, "resizer at work on cluster 'demo'"),
        (("resizer",), None, "a second instance would act as well: set cluster.lease_namespace to let it stand by"),
        (("webhook",), None, "webhook at work on cluster 'demo' at http://api"),
    ],
)
def test_what_is_said_at_the_start_is_true_of_an_instance_that_stands_by(
    names: tuple[str, ...], namespace: str | None, told: str
) -> None:
    cluster = ClusterSettings(name="demo", url="http://api", lease_namespace=namespace)
    said = consumer.begun(names, Settings(cluster=cluster))
    assert told in said
    assert ("at work" in said) is (namespace is None)
