"""Objects of a cluster that command, on a Kafka with access rules: mirrored with the rights of the docs, and with no others."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from schemas.policies.control import Mode
from schemas.policies.vertical import UpdateMode
from streams.clients.kube.commanding_objects import ControlObject, PolicyObject
from streams.clients.kube.json_objects import Json
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish.cluster_control import ClusterControlPublisher, ControlDoor
from streams.sources.kube.publish.policy_objects import PolicyDoor, PolicyObjectPublisher
from streams.sources.kube.watch.watched_resources import CONTROLS, POLICIES
from streams.topics import Topics
from tests.support.documented_rights import PREFIX, documented_rights
from tests.support.secured_kafka import SecuredKafka, secured_kafka

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
TOPICS = Topics(PREFIX, 2)
USERS = ("kube", "mirror", "policies")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    rights = documented_rights()
    with secured_kafka(tmp_path_factory.mktemp("secured"), USERS) as kafka:
        kafka.make_topics(TOPICS.specs(1))
        kafka.allow({user: rights[user] for user in USERS})
        yield kafka


def seen(kind: Any, spec: Json, name: str) -> Any:
    """An object as the watch gives it."""
    meta = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "generation": 1}
    return msgspec.json.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": {}}), type=kind)


def obeyed(publisher: ClusterControlPublisher | PolicyObjectPublisher, found: Any, resource: str) -> None:
    publisher.restore(PublishedState(), AT)
    publisher.seen("", found, AT)
    publisher.synced(resource, controllers=False, at=AT)
    publisher.publish_due(AT)


@pytest.mark.parametrize("user", USERS)
def test_only_who_mirrors_the_switch_may_write_control(kafka: SecuredKafka, user: str) -> None:
    said: list[Json] = []
    with KafkaLog(kafka.connection(user)) as log, KafkaLog(kafka.connection()) as admin:
        context = LogContext.of(log, TOPICS, f"real-{user}")
        door = ControlDoor(lambda _found, status: said.append(status), lambda: None)
        if user == "mirror":
            obeyed(ClusterControlPublisher(context, door), seen(ControlObject, {"mode": "apply"}, "ullage"), CONTROLS.name)
            again = ClusterControlPublisher(context, door)
            obeyed(again, seen(ControlObject, {"mode": "apply"}, "ullage"), CONTROLS.name)
        else:
            publisher = ClusterControlPublisher(context, door)
            publisher.seen("", seen(ControlObject, {"mode": "apply"}, "ullage"), AT)
            publisher.publish_due(AT)
        control = OperatorLog(LogContext.of(admin, TOPICS)).control(f"real-{user}")
    assert (None if control is None else control.mode, bool(said)) == ((Mode.APPLY, True) if user == "mirror" else (None, False))


@pytest.mark.parametrize("user", USERS)
def test_only_who_mirrors_policies_may_write_rules(kafka: SecuredKafka, user: str) -> None:
    said: list[Json] = []
    spec = {"target": {"kind": "Deployment", "name": user}, "mode": "InPlace"}
    with KafkaLog(kafka.connection(user)) as log, KafkaLog(kafka.connection()) as admin:
        context = LogContext.of(log, TOPICS, "real")
        publisher = PolicyObjectPublisher(context, PolicyDoor(lambda _found, status: said.append(status), lambda _guards: None))
        if user == "policies":
            publisher.restore(PublishedState(), AT)
        publisher.seen("", seen(PolicyObject, spec, user), AT)
        publisher.synced(POLICIES.name, controllers=False, at=AT)
        publisher.publish_due(AT)
        policy = OperatorLog(LogContext.of(admin, TOPICS)).policies().get(f"real/shop/Deployment/{user}")
    found = (None if policy is None else policy.update_mode, bool(said))
    assert found == ((UpdateMode.IN_PLACE, True) if user == "policies" else (None, False))
