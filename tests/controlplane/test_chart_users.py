"""Who signs in at Kafka as whom, as Helm renders it: each process by its own Secret, with the rights of docs/security.md."""

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.chart_values import SCRAM, VALUES, asked, pods, rendered
from tests.support.documented_rights import documented_rights
from tests.support.secured_kafka import Grant


def acls(documents: list[dict[str, Any]]) -> dict[str, set[Grant]]:
    """What Strimzi's users may do."""
    return {
        document["metadata"]["name"]: {
            Grant(operation, resource["type"], resource["name"] + "*" * (resource["patternType"] == "prefix"))
            for acl in document["spec"]["authorization"]["acls"]
            for resource in [acl["resource"]]
            for operation in acl["operations"]
        }
        for document in documents
        if document["kind"] == "KafkaUser"
    }


def test_strimzi_makes_a_user_for_each_process_with_the_rights_of_the_page_on_security(helm: Path) -> None:
    values = {**VALUES["strimzi"], "layout": "large", "mode": "apply", "settings.cluster.control": True}
    documents = rendered(helm, "ullage", values)
    rights, given = documented_rights(), acls(documents)
    assert given["ullage-kafka-webhook"] == set(rights["webhook"])
    assert given["ullage-kafka-source-kube"] == {*rights["kube"], *rights["mirror"]}
    assert given["ullage-kafka-commands"] == {*rights["operator"], *rights["reader"]}
    deployed = {d["metadata"]["name"].removeprefix("ullage-") for d in documents if d["kind"] == "Deployment"}
    assert given.keys() == {f"ullage-kafka-{name}" for name in deployed}
    for name in deployed:
        (container,) = pods(documents)[f"ullage-{name}"]["spec"]["containers"]
        named = {entry["valueFrom"]["secretKeyRef"]["name"] for entry in container["env"] if "valueFrom" in entry}
        assert named == {f"ullage-kafka-{name}"}
    one = rendered(helm, "ullage", {**values, "kafka.security.secret": "mine"})
    assert acls(one) == {"ullage": set().union(*given.values())}


def test_secrets_by_process_go_before_the_one_for_all(helm: Path) -> None:
    documents = rendered(helm, "ullage", {**VALUES["scram"], "kafka.security.secrets": {"worker": "kafka-worker"}})
    given = {
        name: {volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if volume["name"] == "kafka"}
        for name, pod in pods(documents).items()
    }
    assert given["ullage-worker"] == {"kafka-worker"}
    assert given["ullage-commands"] == {"kafka-user"}


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ({"wroker": "x"}, "kafka.security.secrets: 'wroker' is none of setup, commands,"),
        ({"worker": "x"}, "or one for 'setup' in kafka.security.secrets"),
    ],
)
def test_a_process_without_a_secret_and_a_secret_without_a_process_are_refused(
    helm: Path, secrets: dict[str, str], said: str
) -> None:
    values = {"kafka.brokers": "kafka:9092", **SCRAM, "kafka.security.secrets": secrets}
    done = asked(helm, "template", "ullage", "--kube-version", "1.34.0", values=values)
    assert done.returncode != 0
    assert said in done.stderr
