"""Sets of values that people use, from the chart to processes at work: applied strictly, then started as their pods say.

The namespace enforces PodSecurity `restricted`, the API server makes the pods, and each container gets its own user, rights,
environment and mounts. A set is at work when the setup has ended well, every process is ready and `helm test` passes.
"""

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from streams.topics import TopicSpec
from tests.controlplane import prometheus_package, started_pods
from tests.controlplane.api_requests import wait_for
from tests.controlplane.chart_values import API_VERSIONS, CUSTOM, VALUES, path_of, rendered
from tests.controlplane.plane import Plane
from tests.controlplane.started_pods import Node, Started
from tests.controlplane.test_chart_users import acls
from tests.controlplane.world import World
from tests.support import usage_senders
from tests.support.aws_double import AwsDouble, aws_server
from tests.support.certificates import Authority
from tests.support.commands import ROOT
from tests.support.secured_kafka import PASSWORD, SecuredKafka, secured_kafka

__all__ = ["aws_server"]


@dataclass
class Scene:
    """What a set of values finds in its cluster."""

    plane: Plane
    world: World
    broker: str
    folder: Path
    secured: Callable[[], SecuredKafka]
    aws: AwsDouble
    stack: ExitStack

    def authority(self) -> Authority:
        return Authority.make(self.folder, "company")

    def certificate(self, *hosts: str) -> dict[str, bytes]:
        """What a Secret of kind kubernetes.io/tls has, with the authority beside it, as cert-manager writes it."""
        authority = self.authority()
        pem = authority.sign("tls", hosts).read_bytes()
        begins = pem.index(b"-----BEGIN CERTIFICATE")
        return {"tls.key": pem[:begins], "tls.crt": pem[begins:], "ca.crt": authority.file.read_bytes()}

    def make(self, kind: str, name: str, content: Mapping[str, bytes]) -> None:
        """A ConfigMap or Secret of the namespace."""
        data = {key: base64.b64encode(value).decode() if kind == "secrets" else value.decode() for key, value in content.items()}
        self.world.ask.post(self.world.path(kind), {"metadata": {"name": name}, "data": data})


Prepared = Mapping[str, object]
"""Values beside those of the set: what only this test knows, such as ports. None takes away one of `TOLD`."""


def _webhook_certificate(scene: Scene) -> Prepared:
    scene.make("secrets", "webhook-tls", scene.certificate(f"ullage-webhook.{scene.world.namespace}.svc"))
    return {}


def _policies(scene: Scene) -> Prepared:
    scene.make("configmaps", "ullage-policies", {"mine.py": (ROOT / "examples/built_in_rule.py").read_bytes()})
    return {}


def _prometheus_with_an_own_authority(scene: Scene) -> Prepared:
    pair = scene.certificate("127.0.0.1")
    for name, content in pair.items():
        (scene.folder / name).write_bytes(content)
    (scene.folder / "web.yml").write_text(json.dumps({"tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"}}))
    (scene.folder / "prometheus.yml").write_text("{}")
    url = scene.stack.enter_context(prometheus_package.server(scene.folder))
    scene.make("secrets", "company-ca", {"ca.crt": pair["ca.crt"]})
    return {"usage.prometheusUrl": url}


def _past_the_proxy(scene: Scene) -> Prepared:  # noqa: ARG001  # as the others
    """The API server is on loopback here. Nobody is at the proxy, so whoever asks it for the API server is not ready."""
    return {"extraEnv": [*VALUES["proxy"]["extraEnv"][:1], {"name": "NO_PROXY", "value": ".svc,10.0.0.0/8,127.0.0.0/8"}]}  # type: ignore[index]  # a list


def _environment_from_elsewhere(scene: Scene) -> Prepared:
    scene.make("secrets", "ullage-environment", {"ULLAGE_UPDATES__RATE": b"7"})
    scene.make("configmaps", "worker", {"ULLAGE_VERTICAL__MARGIN": b"0.3"})
    return {}


def _runtime_class(scene: Scene) -> Prepared:
    path, kept = "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "gvisor"}, "handler": "runsc"}
    scene.world.ask.post(path, {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **kept})
    scene.stack.callback(scene.world.ask.delete, f"{path}/gvisor")
    return {}


def _registry(scene: Scene) -> Prepared:
    scene.make("secrets", "mirror", {".dockerconfigjson": b'{"auths": {"mirror.example": {"auth": "eDp5"}}}'})
    return {}


def _login(scene: Scene) -> Prepared:
    secured = scene.secured()
    login = {"username": b"admin", "password": PASSWORD.encode(), "ca.crt": secured.authority.file.read_bytes()}
    scene.make("secrets", "kafka-user", login)
    return {"kafka.brokers": secured.broker.bootstrap}


def _login_with_an_authority_of_the_system(scene: Scene) -> Prepared:
    """The broker's authority is in the bundle alone."""
    secured = scene.secured()
    scene.make("secrets", "kafka-ca", {"username": b"admin", "password": PASSWORD.encode()})
    scene.make("configmaps", "trust-bundle", {"bundle.pem": secured.authority.file.read_bytes()})
    signing = {"kafka.security.protocol": "SASL_SSL", "kafka.security.mechanism": "SCRAM-SHA-512"}
    return {"kafka.brokers": secured.broker.bootstrap, **signing}


def _cluster_of_strimzi(scene: Scene) -> Prepared:
    secured = scene.secured()
    scene.make("secrets", "main-cluster-ca-cert", {"ca.crt": secured.authority.file.read_bytes(), "ca.p12": b"?"})
    # Its objects are made for the default name, and "scram" has made the topics of the others there.
    return {"kafka.brokers": secured.broker.bootstrap, "settings.worker.name": None, "kafka.topicPrefix": "strimzi"}


def _host_of_an_alias(scene: Scene) -> Prepared:
    alias = {"ip": "127.0.0.1", "hostnames": ["kafka.company"]}
    return {"hostAliases": [alias], "kafka.brokers": f"kafka.company:{scene.broker.rpartition(':')[2]}"}


def _two_workers(scene: Scene) -> Prepared:  # noqa: ARG001  # as the others
    return {"kafka.partitions": 2, "kafka.topicPrefix": "two", "settings.worker.name": "two"}


def _group(scene: Scene) -> Prepared:
    scene.aws.group("workers", least=1, most=9, desired=1)
    return {}


STARTED: Mapping[str, Callable[[Scene], Prepared] | None] = {
    "watch": None,
    "shadow": None,
    "apply": None,
    "openshift": None,
    "irsa, small": _group,
    "cert-manager": None,
    "own certificate": _webhook_certificate,
    "proxy": _past_the_proxy,
    "istio": None,
    "node pool": None,
    "policies as code": _policies,
    "authority": _prometheus_with_an_own_authority,
    "secrets from elsewhere": _environment_from_elsewhere,
    "sandboxed": _runtime_class,
    "names": None,
    "mirror": _registry,
    "scram": _login,
    "strimzi": _cluster_of_strimzi,
    "a bundle of authorities": _login_with_an_authority_of_the_system,
    "workload identity": None,
    "linkerd and vault": _two_workers,
    "strict policies": None,
    "argo and a secrets store": None,
    "names of hosts": _host_of_an_alias,
    "sidecars": None,
    "usage that is sent": None,
}
TOLD = {"kafka.partitions": 1, "kafka.topicPrefix": "started", "settings.worker.name": "started"}
"""Of all sets: one after another they are upgrades of one installation."""
OPEN = {"sidecars"}
"""Containers that people add say nothing of their rights, so a strict namespace would refuse their pods."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SecuredKafka]]:
    """A Kafka that asks for a login, once a set wants one; it knows the users that the chart's KafkaUsers are."""
    with ExitStack() as stack:
        made: list[SecuredKafka] = []

        def get() -> SecuredKafka:
            if not made:
                users = ("ullage-kafka-worker", "ullage-kafka-commands")
                made.append(stack.enter_context(secured_kafka(tmp_path_factory.mktemp("secured"), users)))
            return made[0]

        yield get


@pytest.fixture
def scene(
    plane: Plane, world: World, broker: str, secured: Callable[[], SecuredKafka], aws_server: AwsDouble, *, tmp_path: Path
) -> Iterator[Scene]:
    started_pods.needed()
    aws_server.reset()
    with ExitStack() as stack:
        yield Scene(plane, world, broker, tmp_path, secured, aws_server, stack)


def operators(scene: Scene, documents: Iterable[Mapping[str, Any]]) -> None:
    """What the operators of others make of the chart's objects of theirs."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        by_kind.setdefault(document["kind"], []).append(document)
    for certificate in by_kind.get("Certificate", ()):
        scene.make("secrets", certificate["spec"]["secretName"], scene.certificate(*certificate["spec"]["dnsNames"]))
    if topics := [document["spec"] for document in by_kind.get("KafkaTopic", ())]:
        scene.secured().make_topics(
            TopicSpec(topic["topicName"], topic["partitions"], {key: str(value) for key, value in topic["config"].items()}, 1)
            for topic in topics
        )
    if rights := acls([*by_kind.get("KafkaUser", ())]):
        for user in rights:
            scene.make("secrets", user, {"password": PASSWORD.encode(), "sasl.jaas.config": b"?"})
        scene.secured().allow(rights)


def install(scene: Scene, documents: Iterable[Mapping[str, Any]]) -> None:
    """Posts all strictly; what lies outside the namespace goes with the test."""
    for document in documents:
        path = path_of(document)
        scene.world.ask.post(f"{path}?fieldValidation=Strict", document)
        if document["metadata"].get("namespace") != scene.world.namespace:
            scene.stack.callback(scene.world.ask.delete, f"{path}/{document['metadata']['name']}")


def pod_of(scene: Scene, component: str) -> Any:
    """The first pod that a controller has made of a component."""
    path = f"{scene.world.path('pods')}?labelSelector=app.kubernetes.io%2Fcomponent%3D{component}"
    return wait_for(lambda: scene.world.ask.get(path)["items"], what=f"a pod of {component}")[0]


def identities(scene: Scene) -> dict[str, dict[str, str]]:
    """What the webhook of EKS adds to pods whose account names a role."""
    accounts = scene.world.ask.get(scene.world.path("serviceaccounts"))["items"]
    roles = {a["metadata"]["name"]: a["metadata"].get("annotations", {}).get("eks.amazonaws.com/role-arn") for a in accounts}
    told = {
        "AWS_ENDPOINT_URL": scene.aws.url,
        "AWS_REGION": "eu-central-1",
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{started_pods.ACCOUNT}/token",
    }
    return {account: {**told, "AWS_ROLE_ARN": role} for account, role in roles.items() if role}


def test_all_sets_that_are_started_are_rendered_and_applied_strictly() -> None:
    assert len(STARTED) >= 20
    assert STARTED.keys() <= VALUES.keys()


@pytest.fixture(scope="module")
def before() -> set[str]:
    """In which ways containers were started so far."""
    return set()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", STARTED)
def test_its_pods_start_with_what_they_mount_and_are_at_work(name: str, scene: Scene, helm: Path, before: set[str]) -> None:
    prepare = STARTED[name]
    prepared = prepare(scene) if prepare else {}
    values = {**VALUES[name], **TOLD, "kafka.brokers": scene.broker, **prepared}
    node, documents = installed(name, {key: value for key, value in values.items() if value is not None}, scene, helm)
    node.imports = name == "apply"  # as in an image, where what a module does when it is loaded has these rights
    components = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in documents if d["kind"] == "Deployment"}
    setup, test, *pods = (pod_of(scene, component) for component in ("setup", "test", *(components - {"commands"})))
    ways = node.ways(setup, test, *pods)
    if ways <= before:
        return  # in other sets each of its containers was started like this
    before |= ways
    node.run(setup)
    processes = {name: process for name, process in node.run(*pods).items() if name in components}
    if name in AT_WORK:
        AT_WORK[name](scene, processes)
    ready(processes)
    node.run(test)
    node.close()
    assert {component: process.process.poll() for component, process in processes.items()} == dict.fromkeys(processes, 0)


@pytest.mark.parametrize(
    ("there", "missing", "said"),
    [
        (True, "extraVolumeMounts", "'/etc/ullage/policies/mine.py'"),
        (False, "", "there is no 'ullage-policies' among configmaps"),
    ],
)
def test_a_pod_without_what_it_mounts_does_not_start(
    there: bool, missing: str, said: str, scene: Scene, helm: Path
) -> None:  # a row of the table
    if there:
        _policies(scene)
    values = {key: value for key, value in VALUES["policies as code"].items() if key != missing}
    node, _ = installed("policies as code", {**values, **TOLD, "kafka.brokers": scene.broker}, scene, helm)
    with pytest.raises(AssertionError, match=said):
        node.run(pod_of(scene, "setup"))


def installed(name: str, values: Mapping[str, object], scene: Scene, helm: Path) -> tuple[Node, list[dict[str, Any]]]:
    """A node for the pods that the API server makes of these values, and what was rendered."""
    strict = {"pod-security.kubernetes.io/enforce": "restricted"} if name not in OPEN else {}
    scene.world.ask.patch(f"/api/v1/namespaces/{scene.world.namespace}", {"metadata": {"labels": strict}})
    documents = rendered(helm, scene.world.namespace, values, API_VERSIONS.get(name, ()))
    operators(scene, documents)
    install(scene, [document for document in documents if not document["apiVersion"].startswith(CUSTOM)])
    node = Node(scene.plane, scene.world.namespace, scene.folder, drivers=DRIVERS, injected=identities(scene))
    node.user = 1000650000 if name.startswith("openshift") else None
    scene.stack.callback(node.close)
    return node, documents


def ready(processes: Mapping[str, Started]) -> None:
    for process in processes.values():
        try:
            wait_for(process.ready, timeout=60.0)
        except TimeoutError:
            pytest.fail(f"not ready: {process.unready()} {process.said()}")


def _took_its_environment(scene: Scene, processes: Mapping[str, Started]) -> None:
    """The log has the settings by which all decide, and a worker with others would not be ready."""
    ready(processes)

    told = {"log.brokers": scene.broker, "topics.prefix": "started", "topics.partitions": 1, "worker.name": "started"}
    words = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]
    command = [*started_pods.ENTRY, "settings", "plan", *words]
    ended = subprocess.run(command, cwd=scene.folder, env=started_pods.IMAGE, capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    assert "margin is 0.3 in the log" in said
    assert "rate is 7 in the log" in said


def _took_the_role(scene: Scene, processes: Mapping[str, Started]) -> None:
    ready(processes)
    assert {call["RoleArn"] for call in scene.aws.calls("AssumeRoleWithWebIdentity")} == {"arn:aws:iam::111122223333:role/ullage"}


def _takes_usage(_: Scene, processes: Mapping[str, Started]) -> None:
    body = usage_senders.packed(usage_senders.v1([(usage_senders.labels(usage_senders.CPU), [(time.time(), 1.0)])]))
    url = f"http://127.0.0.1:{processes['worker'].ports['RECEIVER__PORT']}/api/v1/write"

    def taken() -> bool:
        try:
            return urllib3.request("POST", url, body=body, headers=usage_senders.V1, retries=False, timeout=60.0).status == 204
        except urllib3.exceptions.HTTPError:
            return False

    wait_for(taken, what="usage is taken")


AT_WORK: Mapping[str, Callable[[Scene, Mapping[str, Started]], None]] = {
    "secrets from elsewhere": _took_its_environment,
    "irsa, small": _took_the_role,
    "usage that is sent": _takes_usage,
}
"""What of a set can be seen at work, beside that all are ready."""
DRIVERS = {"secrets-store.csi.k8s.io": {"kafka-password": b"made-up"}}
