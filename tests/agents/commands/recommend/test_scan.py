"""`ullage scan`: a Prometheus server and a file with the same samples give the same table, in every form, with krr's flags."""

import csv
import io
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from agents.commands.recommend import recommendation_table
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.recommend.scan_sources import ScannedPods
from agents.commands.recommend.scan_table import grade, score
from agents.processes import dependency_probes
from agents.settings.all_settings import ClusterSettings, Settings
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores
from streams.codec.container_requests_reader import RecommendedAmounts, RecommendedRequests, containers_of
from tests.support.canned_http_server import Answering, Asked, answering

HOURS, GIB = 48, 1 << 30
PODS = {"cart-7f-a": "cart", "cart-7f-b": "cart", "db-0": "db", "cart-6e-z": "cart"}
"""Workload of each pod; the last one is gone."""
REQUESTED = {"cart": (1.0, 1 << 30), "db": (0.1, 64 << 20)}


def used(pod: str, hour: int) -> tuple[float, float]:
    """Whole millicores and bytes, with a day's ups and downs."""
    share = round(0.5 + 0.4 * math.sin(hour / 24 * 2 * math.pi), 2)
    cores, size = REQUESTED[PODS[pod]]
    return round(cores * share, 3), float(int(size * (share if pod != "db-0" else 4 * share)))


@dataclass
class Store:
    """A Prometheus server with cAdvisor's and kube-state-metrics' series. `moments` are those it was asked for."""

    moments: list[float] = field(default_factory=list)
    exports: bool = True
    queries: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> tuple[int, bytes]:
        query = asked.fields["query"]
        self.queries.append(query)
        if "start" in asked.fields:
            first, last, step = (float(asked.fields[name]) for name in ("start", "end", "step"))
            self.moments = [first + step * i for i in range(int((last - first) / step) + 1)]
            return _said([self._series(pod, 0 if "rate(" in query else 1) for pod in PODS])
        if query.startswith("count("):
            return _said([_one({}, len(PODS))])
        return _said(list(self._exported(query)) if self.exports else [])

    def _series(self, pod: str, which: int) -> dict[str, object]:
        last = HOURS // 2 if pod == "cart-6e-z" else HOURS
        values = [[at, str(used(pod, hour)[which])] for hour, at in enumerate(self.moments) if hour <= last]
        return {"metric": _of(pod) | {"container": "main"}, "values": values}

    def _exported(self, query: str) -> Iterator[dict[str, object]]:
        pods = [pod for pod in PODS if "last_over_time" in query or pod != "cart-6e-z"]
        if "kube_pod_owner" in query:
            for pod in pods:
                owner = ("StatefulSet", "db") if pod == "db-0" else ("ReplicaSet", pod[:7])
                yield _one(_of(pod) | {"owner_kind": owner[0], "owner_name": owner[1]}, 1)
        elif "kube_replicaset_owner" in query:
            for name in ("cart-7f", "cart-6e"):
                yield _one({"namespace": "shop", "replicaset": name, "owner_kind": "Deployment", "owner_name": "cart"}, 1)
        elif "resource_requests" in query:
            for pod in pods:
                for resource, amount in zip(("cpu", "memory"), REQUESTED[PODS[pod]], strict=True):
                    yield _one(_of(pod) | {"container": "main", "resource": resource}, amount)
        elif "kube_pod_labels" in query:
            yield from (_one(_of(pod) | {"label_app": PODS[pod]}, 1) for pod in pods)


def _of(pod: str) -> dict[str, str]:
    return {"namespace": "shop", "pod": pod}


def _one(labels: dict[str, str], value: float) -> dict[str, object]:
    return {"metric": labels, "value": [0, str(value)]}


def _said(result: list[Any]) -> tuple[int, bytes]:
    return 200, json.dumps({"status": "success", "data": {"resultType": "any", "result": result}}).encode()


@pytest.mark.parametrize(("flag", "matcher"), [("east", 'cluster="east"'), ("env=prod", 'env="prod"')])
def test_one_cluster_of_a_server_that_holds_several_is_told_by_a_label(
    store: Store, server: Answering, flag: str, matcher: str, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = rows(capsys, "-p", server.url, "--history", "2d")
    assert not [query for query in store.queries if matcher in query]
    store.queries.clear()
    assert rows(capsys, "-p", server.url, "--history", "2d", "-l", flag) == everything
    assert store.queries
    assert [query for query in store.queries if matcher not in query] == []


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def server(store: Store) -> Iterator[Answering]:
    with answering(store) as here:
        yield here


def scanned(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert cli.run(["scan", *words]) == code, capsys.readouterr().err
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(scanned(capsys, *words, "-f", "json"))}


def trace_of(store: Store, path: Path) -> Path:
    """The same samples as a file."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        names = ["timestamp_s", "namespace", "workload", "pod", "container", "cpu_cores", "memory_bytes"]
        table.writerow([*names, "cpu_request_cores", "memory_request_bytes"])
        for hour, at in enumerate(store.moments):
            for pod, workload in PODS.items():
                if hour <= (HOURS // 2 if pod == "cart-6e-z" else HOURS):
                    table.writerow([at, "shop", workload, pod, "main", *used(pod, hour), *REQUESTED[workload]])
    return path


def test_a_server_and_a_file_with_the_same_samples_give_the_same_figures(
    store: Store, server: Answering, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    of_server = rows(capsys, "-p", server.url, "--history", "2d")
    assert len(store.moments) == HOURS + 1
    of_file = rows(capsys, "--from-file", str(trace_of(store, tmp_path / "usage.csv")))
    assert set(of_server) == set(of_file) == {"cart", "db"}
    for name in ("cart", "db"):
        for what in ("requests", "recommended_requests"):
            assert [of_server[name][f"{what}_{r}"] for r in ("cpu", "memory")] == [
                of_file[name][f"{what}_{r}"] for r in ("cpu", "memory")
            ]
    assert (of_server["cart"]["kind"], of_server["db"]["kind"]) == ("Deployment", "StatefulSet")
    assert (of_server["cart"]["risk"], of_server["db"]["risk"]) == ("low", "high")
    # The 90th percentile of 0.1 to 0.9 cores and a margin of 15 %, in buckets of 5 %.
    assert 0.9 < of_server["cart"]["recommended_requests_cpu"] < 1.15


def hourly(path: Path, hours: int) -> Path:
    """A container that requests 600 MiB, uses 400, and in one hour of each day 800."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        names = ["timestamp_s", "namespace", "workload", "pod", "container", "cpu_cores", "memory_bytes"]
        table.writerow([*names, "cpu_request_cores", "memory_request_bytes"])
        for hour in range(hours):
            used = 800 if hour % 24 == 12 else 400
            table.writerow([1_767_571_200 + 3600 * hour, "shop", "cart", "cart-1", "main", 0.1, used << 20, 0.2, 600 << 20])
    return path


@pytest.mark.parametrize("hours", [37, 192, 193, 204])
def test_a_peak_over_the_request_each_day_is_a_high_risk_whatever_the_last_sample_says(
    hours: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = hourly(tmp_path / "usage.csv", hours)
    cart = json.loads(scanned(capsys, "--from-file", str(file), "-f", "json", "--fail-on", "high", code=3))[0]
    assert (cart["risk"], cart["why"], cart["memory_over_request"], cart["cpu_over_request"]) == (
        "high",
        "too little memory",
        0.1,
        0.0,
    )


def test_what_a_server_gave_and_is_kept_gives_the_same_table_to_the_last_digit(
    server: Answering, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here = ("-p", server.url, "--history", "2d", "--until", "2026-01-05T12:34:56+00:00")
    of_server = rows(capsys, *here)
    kept = tmp_path / "kept.parquet"
    assert cli.run(["backtest", *here, "--step", "1h", "--keep", str(kept)]) == 0
    assert rows(capsys, "--from-file", str(kept)) == of_server


def test_a_scan_of_the_same_data_gives_the_same_rows_in_whatever_order_they_come() -> None:
    """Two very unequal pods a Deployment: the row must not be that of whichever comes last."""
    at, small, large = datetime(2026, 1, 5, tzinfo=UTC), Amounts(Cores(0.1), Bytes(1 << 26)), Amounts(Cores(4.0), Bytes(1 << 33))
    workloads = [Workload("c", "shop", "Deployment", name) for name in ("cart", "till")]
    target = Amounts(Cores(1.0), Bytes(1 << 30))
    recommended = RecommendedAmounts("main", target, target, target, target, ((0.1, 0.5),), ((0.1, float(1 << 29)),))
    found = set()
    for seed in range(40):
        said = [
            PodChanged(
                at,
                workload,
                PodName("shop", f"{n}", f"{workload.name}{n}"),
                PodPhase.RUNNING,
                at,
                (ContainerSeen("main", amounts),),
            )
            for workload in workloads
            for n, amounts in enumerate((small, large))
        ]
        random.Random(seed).shuffle(said)
        pods = ScannedPods()
        for event in said:
            pods.take(event)
        containers = {key: [containers_of(pod) for pod in there] for key, there in pods.by_workload().items()}
        decisions = [RecommendedRequests(workload, (recommended,), 2) for workload in workloads]
        found.add(repr(recommendation_table.rows_of(decisions, containers, at)))
    assert len(found) == 1
    assert found.pop().count("risk='high', why='too little memory'") == 2


@dataclass
class Unequal:
    """A Prometheus server with a Deployment of each of these names, of two very unequal pods, whose series come in any order."""

    names: tuple[str, ...] = ("cart", "till", "mail", "web")
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def __call__(self, asked: Asked) -> tuple[int, bytes]:
        found = list(self._series(asked.fields["query"], asked.fields))
        self.chance.shuffle(found)
        return _said(found)

    def _pods(self) -> Iterator[tuple[str, str, float]]:
        """Name, the ReplicaSet's, and how many times as much as the other it requests and uses."""
        for name in self.names:
            yield from ((f"{name}-7f-{pod}", f"{name}-7f", times) for pod, times in (("a", 1.0), ("b", 40.0)))

    def _series(self, query: str, fields: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        if query.startswith("count("):
            yield _one({}, len(self.names) * 2)
            return
        if "kube_replicaset_owner" in query:
            for name in self.names:
                owner = {"owner_kind": "Deployment", "owner_name": name}
                yield _one({"namespace": "shop", "replicaset": f"{name}-7f"} | owner, 1)
            return
        for pod, replicas, times in self._pods():
            if "start" in fields:
                first, last, step = (float(fields[name]) for name in ("start", "end", "step"))
                base = 0.07 if "rate(" in query else float(90 << 20)
                values = [
                    [first + step * i, repr(base * times * (1.0 + 0.3 * math.sin(i)))]
                    for i in range(int((last - first) / step) + 1)
                ]
                yield {"metric": _of(pod) | {"container": "main"}, "values": values}
            elif "kube_pod_owner" in query:
                yield _one(_of(pod) | {"owner_kind": "ReplicaSet", "owner_name": replicas}, 1)
            elif "resource_requests" in query:
                for resource, amount in (("cpu", 0.1 * times), ("memory", (100 << 20) * times)):
                    yield _one(_of(pod) | {"container": "main", "resource": resource}, amount)


@pytest.mark.slow
def test_40_scans_of_one_server_until_one_moment_give_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """Series come in another order with each answer; the moment is fixed, so nothing else may move."""
    found = set()
    with answering(Unequal()) as here:
        for _ in range(200):
            words = ("-p", here.url, "--history", "6h", "--step", "1h", "--until", "2026-01-05T12:34:56+00:00", "-f", "json")
            found.add(scanned(capsys, *words))
    assert len(found) == 1
    table = json.loads(found.pop())
    assert [row["pods"] for row in table] == [2, 2, 2, 2]
    assert {row["risk"] for row in table} == {"high"}


def test_namespaces_selectors_limits_and_order_are_krrs(server: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("-p", server.url, "--history", "2d")
    assert set(rows(capsys, *here, "-n", "sh*", "-s", "app=db")) == {"db"}
    assert set(rows(capsys, *here, "-s", "app!=db")) == {"cart"}
    assert rows(capsys, *here, "-n", "other") == {}
    assert list(rows(capsys, *here, "--sort", "risk")) == ["db", "cart"]
    assert list(rows(capsys, *here, "--sort", "namespace", "--limit", "1")) == ["cart"]


def test_headers_go_with_every_question_and_no_job_is_asked_for(server: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    scanned(capsys, "-p", server.url, "--history", "2d", "-H", "X-Scope-OrgID: shop", "-q")
    assert {asked.headers.get("X-Scope-OrgID") for asked in server.asked} == {"shop"}
    assert not any("job=" in asked.fields["query"] for asked in server.asked)


@pytest.mark.parametrize("form", ["table", "csv", "csv-raw", "markdown", "html", "yaml"])
def test_every_form_names_every_container(form: str, server: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    text = scanned(capsys, "-p", server.url, "--history", "2d", "-f", form)
    assert text.count("Deployment") == 1
    assert text.count("StatefulSet") == 1
    if form == "csv-raw":
        assert float(next(csv.DictReader(io.StringIO(text)))["requests_memory"]) in {1 << 30, 64 << 20}


def test_a_gate_exits_with_3_and_the_table_may_go_to_a_file(
    server: Answering, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here = ("-p", server.url, "--history", "2d", "--fileoutput", str(tmp_path / "table"))
    scanned(capsys, *here, "--fail-on", "high", code=3)
    scanned(capsys, *here, "-n", "none", "--fail-on", "high")
    assert (tmp_path / "table").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from-file", "none.csv"), "there is no trace"),
        (("-p", "http://127.0.0.1:1"), "127.0.0.1:1"),
        (("--from-file", "none.csv", "-p", "http://127.0.0.1:1"), "give either --from-file or --prometheus-url"),
        (("--from-file", "none.csv", "-s", "a=b=c"), "is none of app=cart"),
        (("--history", "8"), "--history '8' is no length of time"),
    ],
)
def test_what_cannot_be_is_a_sentence(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["scan", *words]) in {1, 2}
    said = capsys.readouterr().err.strip().splitlines()
    assert says in said[-1]


def test_without_kube_state_metrics_it_says_whom_to_ask_instead(
    store: Store, server: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    store.exports = False
    assert cli.run(["scan", "-p", server.url]) == 2
    assert "nobody scrapes kube-state-metrics; name the cluster instead" in capsys.readouterr().err


def test_a_grade_falls_with_risk_and_with_waste() -> None:
    def row(cpu: float, risk: str) -> RecommendedContainer:
        target = Amounts(1.0, GIB)  # type: ignore[arg-type]  # units
        now = Amounts(cpu, GIB)  # type: ignore[arg-type]  # units
        return RecommendedContainer("n", "Deployment", "w", "c", 1, now, target, target, target, Amounts(), risk, "")

    # A quarter of CPU is right, so three quarters of it are waste: half of 40 points times 0.75.
    assert [score(row(1.0, "low")), score(row(4.0, "low")), score(row(1.0, "high"))] == [100.0, 85.0, 40.0]
    assert [grade(points) for points in (100, 85, 75, 65, 55, 40)] == list("ABCDEF")


def unprivileged(asked: Asked) -> tuple[int, bytes]:
    """An API server that answers, and lets this account do nothing."""
    if "selfsubjectaccessreviews" in asked.path:
        return 201, b'{"status": {"allowed": false}}'
    return (200, b"{}") if asked.path.startswith("/version") else (403, b'{"message": "forbidden"}')


def test_what_each_source_of_up_cannot_see_is_said_in_a_sentence() -> None:
    with answering(unprivileged) as server:
        said = list(dependency_probes.unseen(Settings(cluster=ClusterSettings(url=server.url))))
    kube, usage = said
    denied = "cronjobs.batch, watch cronjobs.batch, list csinodes.storage.k8s.io, watch csinodes.storage.k8s.io and 43 more"
    assert kube == f"source kube cannot see everything: this account may not list {denied}"
    assert usage == "source usage cannot see everything: this account may not list pods.metrics.k8s.io"
    with answering(lambda _asked: (201, b'{"status": {"allowed": true}}')) as server:
        assert list(dependency_probes.unseen(Settings(cluster=ClusterSettings(url=server.url)))) == []


@pytest.mark.parametrize(
    ("namespaces", "says"),
    [
        ("", "this account may not list cronjobs.batch, watch cronjobs.batch, "),
        ("shop", "does not let this account see what a scan needs: "),
    ],
)
def test_a_scan_without_rights_says_at_once_which_is_missing(namespaces: str, says: str) -> None:
    with answering(unprivileged) as server:
        named = {"ULLAGE_CLUSTER__NAMESPACES": namespaces} if namespaces else {}
        environment = {**os.environ, "ULLAGE_CLUSTER__URL": server.url, **named}
        done = subprocess.run(
            [sys.executable, "-m", "agents", "scan"], env=environment, capture_output=True, text=True, timeout=60, check=False
        )  # it took a minute before
    assert says in done.stderr
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
