"""docker-compose.yml, checked without a Docker engine: its form, its references, and every word it says to our program."""

import copy
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cyclopts import CycloptsError

from agents.cli.program import app
from agents.settings import loading
from streams.broker import jars
from streams.errors import BadInput

ROOT = Path(__file__).parents[2]
Compose = dict[str, Any]

TEXT, TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
CONDITIONS = ["service_started", "service_healthy", "service_completed_successfully"]
SERVICE = {
    "image": TEXT,
    "build": {"type": "object", "properties": {"context": TEXT, "dockerfile": TEXT}, "required": ["context", "dockerfile"]},
    "command": TEXTS,
    "environment": {"type": "object", "additionalProperties": TEXT},
    "user": TEXT,
    "init": {"type": "boolean"},
    "read_only": {"type": "boolean"},
    "tmpfs": TEXTS,
    "cap_drop": TEXTS,
    "security_opt": TEXTS,
    "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
    "depends_on": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"condition": {"enum": CONDITIONS}},
            "required": ["condition"],
            "additionalProperties": False,
        },
    },
    "volumes": TEXTS,
    "ports": TEXTS,
    "profiles": TEXTS,
    "network_mode": TEXT,
    "deploy": {"type": "object", "properties": {"replicas": {"type": "integer", "minimum": 1}}, "additionalProperties": False},
    "healthcheck": {
        "type": "object",
        "properties": {
            "test": {**TEXTS, "minItems": 2},
            "interval": {"pattern": r"^\d+s$"},
            "timeout": {"pattern": r"^\d+s$"},
            "start_period": {"pattern": r"^\d+s$"},
            "retries": {"type": "integer"},
        },
        "required": ["test"],
        "additionalProperties": False,
    },
}
FORM = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": SERVICE,
                "required": ["image"],
                "additionalProperties": False,
            },
        },
        "volumes": {"type": "object"},
    },
    "patternProperties": {"^x-": {}},
    "required": ["services"],
    "additionalProperties": False,
}
"""The part of the Compose specification that we use; a key it does not know is an error."""


def problems(compose: Compose) -> list[str]:
    """Everything that is wrong, in sentences; references are looked at only when the form is right."""
    found = [f"{'.'.join(map(str, e.path))}: {e.message}" for e in jsonschema.Draft202012Validator(FORM).iter_errors(compose)]
    if found:
        return found
    for name, service in compose["services"].items():
        for check in (_references, _volumes, _words, _image, _reach, _rights):
            found += [f"{name}: {sentence}" for sentence in check(compose, service)]
    return found


def _references(compose: Compose, service: Mapping[str, Any]) -> Iterator[str]:
    services = compose["services"]
    for other, how in service.get("depends_on", {}).items():
        if other not in services:
            yield f"depends on '{other}', which is no service"
        elif how["condition"] == "service_healthy" and "healthcheck" not in services[other]:
            yield f"waits until '{other}' is healthy, which has no health check"
        elif how["condition"] == "service_completed_successfully" and services[other].get("restart") != "no":
            yield f"waits for the end of '{other}', which is restarted for ever"
        elif not set(services[other].get("profiles", [])) <= set(service.get("profiles", [])):
            yield f"depends on '{other}', which has another profile"
    mode = service.get("network_mode", "")
    if mode and mode.removeprefix("service:") not in services:
        yield f"shares the network of '{mode}', which is no service"


def _volumes(compose: Compose, service: Mapping[str, Any]) -> Iterator[str]:
    for volume in service.get("volumes", []):
        source = volume.partition(":")[0]
        if source.startswith("./"):
            if not (ROOT / source).is_file() or not volume.endswith(":ro"):
                yield f"mounts '{volume}', which is no file of ours that is only read"
        elif source not in compose.get("volumes", {}):
            yield f"uses the volume '{volume}', which is not declared"


def _words(_compose: Compose, service: Mapping[str, Any]) -> Iterator[str]:
    """What it says to our program: the command and the settings."""
    if "build" not in service:
        return
    try:
        app.parse_args(service["command"], exit_on_error=False, print_error=False)
    except CycloptsError as error:
        yield f"`ullage {' '.join(service['command'])}` is no command: {error}"
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ULLAGE_")]:
            patch.delenv(name)
        for name, value in service["environment"].items():
            patch.setenv(name, value)
        try:
            loading.load()
        except BadInput as error:
            yield str(error)


def _image(_compose: Compose, service: Mapping[str, Any]) -> Iterator[str]:
    if not re.fullmatch(r"[a-z/.-]+:v?\d+\.\d+\.\d+[\w.-]*", service["image"]):
        yield f"the image '{service['image']}' is not pinned to a version"
    build = service.get("build")
    if build and not (ROOT / build["context"] / build["dockerfile"]).is_file():
        yield f"there is no '{build['dockerfile']}' to build from"


def _reach(_compose: Compose, service: Mapping[str, Any]) -> Iterator[str]:
    for port in service.get("ports", []):
        if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port):
            yield f"the port '{port}' can be reached from beyond this machine"
    if service.get("network_mode") == "host":
        yield "it is in the host's network"


def _rights(_compose: Compose, service: Mapping[str, Any]) -> Iterator[str]:
    user = service.get("user", "")
    if "build" in service and not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user):
        yield f"it runs as '{user}', which is not a plain user by number"
    if user.partition(":")[0] in {"0", "root"}:
        yield "it runs as root"
    if service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", []):
        yield "it keeps rights that it does not need"


@pytest.fixture
def compose() -> Compose:
    loaded = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return copy.deepcopy(loaded)


def test_nothing_is_wrong_with_it(compose: Compose) -> None:
    assert problems(compose) == []


def test_it_runs_kafka_the_topics_a_clock_and_two_workers_and_more_in_the_demo(compose: Compose) -> None:
    services = compose["services"]
    assert {n for n, s in services.items() if "profiles" not in s} == {"kafka", "topics", "clock", "worker"}
    assert {n for n, s in services.items() if s.get("profiles") == ["demo"]} == {"cluster", "consumer"}
    assert {n for n, s in services.items() if s.get("profiles") == ["observability"]} == {"prometheus", "grafana"}
    with_password = {"kafka-sasl", "topics-sasl", "clock-sasl", "worker-sasl"}
    assert {n for n, s in services.items() if s.get("profiles") == ["sasl"]} == with_password
    assert services["worker"]["deploy"]["replicas"] == 2


def test_it_runs_the_kafka_that_the_embedded_broker_runs_and_makes_no_topics_by_accident(compose: Compose) -> None:
    kafka = compose["services"]["kafka"]
    assert kafka["image"] == f"apache/kafka:{jars.kafka_version(jars.locked())}"
    assert kafka["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert kafka["environment"]["KAFKA_PROCESS_ROLES"] == "broker,controller"
    assert not kafka["environment"]["CLUSTER_ID"].startswith("-")
    assert len(kafka["environment"]["CLUSTER_ID"]) == 22


def test_the_password_that_the_second_kafka_asks_for_is_the_one_that_its_clients_have(compose: Compose) -> None:
    services = compose["services"]
    asked = services["kafka-sasl"]["environment"]["KAFKA_LISTENER_NAME_INSIDE_PLAIN_SASL_JAAS_CONFIG"]
    for name in ("topics-sasl", "clock-sasl", "worker-sasl"):
        told = services[name]["environment"]
        user, password = told["ULLAGE_LOG__SECURITY__USERNAME"], told["ULLAGE_LOG__SECURITY__PASSWORD"]
        assert f'user_{user}="{password}"' in asked
        assert told["ULLAGE_LOG__BROKERS"] in services["kafka-sasl"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_prometheus_scrapes_services_that_there_are_and_loads_the_rules_that_are_mounted(compose: Compose) -> None:
    config = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text(encoding="utf-8"))
    names = {name for job in config["scrape_configs"] for sd in job["dns_sd_configs"] for name in sd["names"]}
    assert names <= set(compose["services"])
    mounted = {volume.split(":")[1] for volume in compose["services"]["prometheus"]["volumes"]}
    assert set(config["rule_files"]) <= mounted


def _set(service: str, key: str, value: object) -> Callable[[Compose], None]:
    def change(compose: Compose) -> None:
        compose["services"][service][key] = value

    return change


def _drop(service: str, key: str) -> Callable[[Compose], None]:
    def change(compose: Compose) -> None:
        del compose["services"][service][key]

    return change


AFTER_NOBODY = {"nobody": {"condition": "service_started"}}
AFTER_CLUSTER = {"cluster": {"condition": "service_started"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("clock", "comand", ["x"]), "services.clock: Additional properties are not allowed ('comand' was unexpected)"),
        (_set("clock", "command", "source clock"), "services.clock.command: 'source clock' is not of type 'array'"),
        (_set("clock", "depends_on", AFTER_NOBODY), "clock: depends on 'nobody', which is no service"),
        (_set("clock", "depends_on", AFTER_CLUSTER), "clock: depends on 'cluster', which has another profile"),
        (_drop("kafka", "healthcheck"), "topics: waits until 'kafka' is healthy, which has no health check"),
        (_set("topics", "restart", "always"), "worker: waits for the end of 'topics', which is restarted for ever"),
        (_set("consumer", "network_mode", "service:gone"), "consumer: shares the network of 'service:gone', which is no service"),
        (_set("grafana", "volumes", ["./gone.yml:/x:ro"]), "grafana: mounts './gone.yml:/x:ro', which is no file of ours"),
        (_set("grafana", "volumes", ["./LICENSE:/x"]), "grafana: mounts './LICENSE:/x', which is no file of ours"),
        (_set("kafka", "volumes", ["other:/x"]), "kafka: uses the volume 'other:/x', which is not declared"),
        (_set("clock", "command", ["source", "clok"]), 'clock: `ullage source clok` is no command: Unknown command "clok".'),
        (
            _set("consumer", "command", ["consumer", "teapot"]),
            "consumer: `ullage consumer teapot` is no command: Invalid value",
        ),
        (
            _set("worker", "environment", {"ULLAGE_LOG__BROKER": "k:1"}),
            "worker: ULLAGE_LOG__BROKER in the environment is not a setting; did you mean",
        ),
        (_set("worker", "environment", {"ULLAGE_TOPICS__PARTITIONS": "0"}), "worker: topics.partitions"),
        (_set("kafka", "image", "apache/kafka:latest"), "kafka: the image 'apache/kafka:latest' is not pinned to a version"),
        (_set("kafka", "image", "apache/kafka"), "kafka: the image 'apache/kafka' is not pinned to a version"),
        (_set("kafka", "ports", ["9094:9094"]), "kafka: the port '9094:9094' can be reached from beyond this machine"),
        (_set("kafka", "ports", ["0.0.0.0:1:1"]), "kafka: the port '0.0.0.0:1:1' can be reached from beyond this machine"),
        (_set("worker", "user", "0:0"), "worker: it runs as '0:0', which is not a plain user by number"),
        (_drop("worker", "user"), "worker: it runs as '', which is not a plain user by number"),
        (_set("kafka", "user", "root"), "kafka: it runs as root"),
        (_set("clock", "cap_drop", []), "clock: it keeps rights that it does not need"),
        (_set("clock", "build", {"context": ".", "dockerfile": "Dockerfile"}), "clock: there is no 'Dockerfile' to build from"),
    ],
)
def test_what_would_be_wrong_is_found(compose: Compose, change: Callable[[Compose], None], said: str) -> None:
    change(compose)
    assert [sentence for sentence in problems(compose) if sentence.startswith(said)] != [], problems(compose)
