"""Green only when it sees: every process, and what becomes of its readiness when a thing that it depends on goes away.

The table at the end is what is promised. All processes run against a real API server, and a Kafka that is killed and comes back.
"""

import json
import os
import re
import signal
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from streams.broker import Broker, BrokerSettings
from streams.topics import Topics
from tests.controlplane import prometheus_package, readiness
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.world import World
from tests.support.aws_double import AwsDouble, aws_server
from tests.support.commands import ROOT, Commands

__all__ = ["aws_server"]

FILES = ROOT / "deploy/helm/ullage/files"
PROCESSES: Mapping[str, tuple[str, ...]] = {
    "clock": ("source", "clock"),
    "kube": ("source", "kube"),
    "usage": ("source", "usage"),
    "source asg": ("source", "asg"),
    "worker": ("worker",),
    "pods": ("consumer", "resizer", "evictor", "status", "autoscalers", "asg"),
    "webhook": ("consumer", "webhook"),
    "metrics-api": ("consumer", "metrics-api"),
}
EVERYBODY = frozenset(PROCESSES)
OF_THE_CLUSTER = frozenset({"kube", "usage", "pods", "webhook", "metrics-api"})
OF_TIME = frozenset({"worker", "pods", "webhook", "metrics-api"})

_CLOCK = "is `ullage source clock` at work?"
AWAY: Mapping[str, Mapping[str, frozenset[str]]] = {
    "Kafka": {"Kafka '": EVERYBODY},
    "the API server": {"the API server is away": OF_THE_CLUSTER - {"usage"}, "the metrics API is away": frozenset({"usage"})},
    "the metrics API": {"the metrics API is away": frozenset({"usage"})},
    "AWS": {"AWS is away": frozenset({"source asg", "pods"})},
    "the clock": {_CLOCK: OF_TIME},
    "the webhook": {"the webhook is away": frozenset({"pods"})},
}
"""What goes away, and the reason that each process gives; a process that is in no set stays ready."""


@dataclass
class Site:
    """All processes, their health ports, and what can be taken away from them."""

    commands: Commands
    ports: dict[str, int]

    def reasons(self, name: str) -> list[str]:
        """Why a process is not ready."""
        answered = readiness.reasons(f"http://127.0.0.1:{self.ports[name]}/readyz")
        return ["nothing answers"] if answered is None else answered

    def besides_the_clock(self, name: str) -> list[str]:
        """Why a process is not ready, but for the clock, which is away while other things go and come."""
        return [reason for reason in self.reasons(name) if _CLOCK not in reason]

    def alive(self, name: str) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/healthz", timeout=5) as answer:
            return int(answer.status) == 200

    def age(self) -> float:
        """The usage source's `ullage_source_age_seconds`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['usage']}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("ullage_source_age_seconds{"))

    def lines(self, name: str) -> list[dict[str, object]]:
        """The log lines of a process, without what it tells a person."""
        text = (self.commands.folder / f"{name}.log").read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def all_ready(self, seconds: float, *, clock: bool = True) -> None:
        look = self.reasons if clock else self.besides_the_clock
        unready: dict[str, list[str]] = {}

        def ready() -> bool:
            unready.clear()
            unready.update({name: reasons for name in self.ports if (reasons := look(name))})
            return not unready

        try:
            self.commands.wait(ready, seconds)
        except AssertionError as error:
            pytest.fail(f"{error} {unready}")

    def becomes(self, away: str) -> None:
        """Wait until each process is as the table says, and says why; the others are ready, and all are alive."""
        expected = {name: reason for reason, names in AWAY[away].items() for name in names}

        def as_promised() -> bool:
            said = {name: " ".join(self.reasons(name)) for name in self.ports if name in expected}
            return all(expected[name] in said[name] for name in said)

        wait_for(as_promised, timeout=45.0, what=f"{expected} without {away}")
        others = {name: self.besides_the_clock(name) for name in self.ports if name not in expected}
        assert not any(others.values()), others
        assert all(self.alive(name) for name in self.ports)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A broker that may be killed."""
    with Broker(BrokerSettings(heap_mb=256, quick=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def home(plane: Plane) -> Iterator[World]:
    """A namespace for all processes, with something to watch."""
    made = World(plane.ask)
    pods = made.deployment("web", replicas=2)
    made.vpa("web", "web", spec={"updatePolicy": {"updateMode": "Off"}})
    stop = threading.Event()
    measuring = threading.Thread(target=_measure, args=(plane, made, pods, stop), daemon=True)
    measuring.start()
    yield made
    stop.set()
    measuring.join(60.0)
    made.close()


def _measure(plane: Plane, world: World, pods: list[dict[str, dict[str, str]]], stop: threading.Event) -> None:
    """What the pods use, measured each second: more and more, so that recommendations move."""
    megabytes = 300
    while not stop.wait(1.0):
        megabytes += 20
        usage = {"app": {"cpu": "100m", "memory": f"{megabytes}Mi"}}
        plane.metrics.forget(world.namespace)
        for pod in pods:
            plane.metrics.serve(world.namespace, pod["metadata"]["name"], usage, at=datetime.now(UTC), window="1s")


@pytest.fixture(scope="module")
def site(
    plane: Plane, home: World, kafka: Broker, aws_server: AwsDouble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    tmp_path, world = tmp_path_factory.mktemp("processes"), home
    topics = Topics("sight", 1)
    health = dict(zip(PROCESSES, free_ports(len(PROCESSES)), strict=True))
    told = settings_of_all(plane, world, aws_server, tmp_path)
    commands = Commands(kafka.bootstrap, topics, tmp_path, told)
    commands.start("topics", "topics", "apply")
    assert commands.running.pop("topics").wait(60) == 0, commands.said("topics")
    made = Site(commands, health)
    for name, words in PROCESSES.items():
        commands.told = {**told, "METRICS__PORT": str(health[name])}
        commands.start(name, *words)
    try:
        made.all_ready(90.0)
        yield made
    finally:
        commands.close()


def settings_of_all(plane: Plane, world: World, aws: AwsDouble, folder: Path) -> dict[str, str]:
    """The environment of every process, with ports of its own for what it serves."""
    hook, metrics = free_ports(2)
    return {
        "CLUSTER__NAME": "real",
        "CLUSTER__KUBECONFIG": str(plane.kubeconfig),
        "CLUSTER__NAMESPACES": world.namespace,
        "USAGE__INTERVAL_SECONDS": "1",
        "VERTICAL__INTERVAL": "1",
        "AWS__ENDPOINT": aws.url,
        "AWS__REGION": "eu-west-1",
        "AWS__DISCOVERY": "asg:tag=none",
        "AWS__REFRESH_SECONDS": "1",
        "WEBHOOK__HOST": "127.0.0.1",
        "WEBHOOK__PORT": str(hook),
        "WEBHOOK__SELF_REGISTER": "false",
        "WEBHOOK__URL": f"https://127.0.0.1:{hook}/",
        "WEBHOOK__NAMESPACE": world.namespace,
        "EVICTOR__WEBHOOK_SECONDS": "10",
        "WEBHOOK__CERTIFICATE_FOLDER": str(folder),
        "METRICS_API__HOST": "127.0.0.1",
        "METRICS_API__PORT": str(metrics),
        "METRICS_API__SELF_REGISTER": "false",
        "METRICS_API__NAMESPACE": world.namespace,
        "METRICS_API__CERTIFICATE_FOLDER": str(folder),
    }


@pytest.mark.timeout(300)
def test_every_panel_of_the_dashboards_shows_data_of_a_real_server(site: Site, tmp_path: Path) -> None:
    prometheus_package.programs()
    targets = [f"127.0.0.1:{port}" for port in site.ports.values()]
    scrape = {"job_name": "ullage", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
    rules = {"rule_files": [str(FILES / "alerts.yaml")], "global": {"evaluation_interval": "1s"}}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({**rules, "scrape_configs": [scrape]}))
    dashboards = [json.loads(file.read_text()) for file in FILES.glob("*dashboard.json")]
    queries = {target["expr"] for dashboard in dashboards for panel in dashboard["panels"] for target in panel["targets"]}
    variables = [variable["query"] for dashboard in dashboards for variable in dashboard["templating"]["list"]]
    queries |= {re.sub(r"label_values\((.+), (\w+)\)", r"group by (\2) (\1)", query) for query in variables if "(" in query}
    queries = {query.replace("$cluster", ".*").replace("$namespace", ".*") for query in queries}
    with prometheus_package.server(tmp_path) as address:
        empty = set(queries)

        def all_show() -> bool:
            empty.difference_update({query for query in empty if _answer(address, query)})
            return not empty

        try:
            wait_for(all_show, timeout=60.0, what="data")
        except AssertionError:
            pytest.fail(f"these show nothing: {empty}")
        assert _answer(address, 'ALERTS{alertstate="firing",severity="critical"}') == []


def _answer(address: str, query: str) -> list[object]:
    """What the server says to a query, without what is no number."""
    with urllib.request.urlopen(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as answer:  # noqa: S310  # loopback
        found = json.load(answer)["data"]["result"]
    return [each for each in found if each["value"][1] != "NaN"]


@pytest.mark.timeout(300)
def test_a_process_is_ready_only_while_all_is_there_that_it_depends_on(
    plane: Plane, kafka: Broker, aws_server: AwsDouble, site: Site
) -> None:
    site.commands.kill("clock")
    killed = time.monotonic()
    clock_port = site.ports.pop("clock")

    plane.metrics.refuse(503)
    site.becomes("the metrics API")
    wait_for(lambda: site.age() > 2.0, timeout=10.0, what="reports that nothing is seen are nothing seen")
    plane.metrics.refuse(None)
    aws_server.down = True
    wait_for(lambda: not site.besides_the_clock("usage"), timeout=20.0, what="usage is seen again")
    site.becomes("AWS")
    aws_server.down = False
    site.all_ready(20.0, clock=False)

    with plane.down(kill=True):
        site.becomes("the API server")
    site.all_ready(60.0, clock=False)
    wait_for(lambda: time.monotonic() > killed + 20.0, timeout=30.0, what="twenty seconds without a tick")
    site.becomes("the clock")

    site.commands.told = {**site.commands.told, "METRICS__PORT": str(clock_port)}
    site.commands.start("clock", *PROCESSES["clock"])
    site.ports["clock"] = clock_port
    site.all_ready(40.0)

    site.commands.kill("webhook")
    hook_port = site.ports.pop("webhook")
    site.becomes("the webhook")
    site.commands.told = {**site.commands.told, "METRICS__PORT": str(hook_port)}
    site.commands.start("webhook", *PROCESSES["webhook"])
    site.ports["webhook"] = hook_port
    site.all_ready(60.0)

    before = {name: len(site.lines(name)) for name in site.ports}
    kafka.kill()
    site.becomes("Kafka")
    kafka.start()
    site.all_ready(60.0)
    for name in site.ports:
        lines = [
            line for line in site.lines(name)[before[name] :] if str(line.get("what", "")).startswith("Kafka") or _chatter(line)
        ]
        assert [line["event"] for line in lines] == ["away", "back"], (name, lines)


@pytest.mark.timeout(300)
def test_an_api_server_that_takes_connections_and_answers_nothing_is_away(plane: Plane, site: Site) -> None:
    before = {name: len(site.lines(name)) for name in OF_THE_CLUSTER}
    os.kill(plane.apiserver.pid, signal.SIGSTOP)
    try:
        site.becomes("the API server")
    finally:
        os.kill(plane.apiserver.pid, signal.SIGCONT)
    site.all_ready(60.0)
    for name in OF_THE_CLUSTER:
        said = [
            line["event"]
            for line in site.lines(name)[before[name] :]
            if line.get("what") in {"the API server", "the metrics API"}
        ]
        assert said == ["away", "back"], name


def _chatter(line: Mapping[str, object]) -> bool:
    """Whether a client said it of its own accord."""
    return str(line.get("logger", "")).partition(".")[0] in {"kafka", "aiokafka", "faust", "mode", "urllib3"}
