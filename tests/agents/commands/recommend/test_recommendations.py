"""The table of recommendations, from a log in a file: figures worked out by hand, order, forms, and what it does not know."""

import csv
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from agents import cli
from agents.commands.recommend import request_totals
from agents.logic.guards.guard_records import in_words
from schemas.bounds import AMOUNT_LIMIT
from schemas.catalogue import Event
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, LastOomKill, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Amounts, Place, PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord
from streams.topics import TOPICS, Topics
from tests.support import ticks

SHOP = Topics("ullage", 2)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
GIB = 1 << 30


def of(cpu: float, gib: float) -> Amounts:
    return Amounts(Cores(cpu), Bytes(int(gib * GIB)))


class Site:
    def __init__(self, path: Path) -> None:
        self.path, self.codec = path, Codec(SHOP)
        with FileLog.open_or_create(path) as log:
            for topic in TOPICS:
                log.create(SHOP.wire(topic.name), 2)
            ticks.append(log, SHOP, int(NOW.timestamp()) * 1000)
        report = SourceReported(NOW, "demo", "kube", ())
        self.append(self.codec.encode_for_all(report, topic="cluster-changes", key="demo", source="/test"))

    def append(self, records: list[NewRecord]) -> None:
        with FileLog(self.path) as log:
            log.append(records)

    def recommended(
        self,
        key: str,
        target: Amounts,
        *,
        ago: float = 60,
        pods: int = 2,
        oom: bool = False,
        none: bool = False,
        other: str = "",
        free: Amounts | None = None,
        upper: Amounts | None = None,
        because: dict[str, object] | None = None,
        reached: tuple[Amounts, Amounts] | None = None,
    ) -> None:
        """`reached`: what was used in a tenth and in a hundredth of the time; without it, what was recommended less a margin."""
        at = NOW - timedelta(seconds=ago)
        often, rare = reached or (of(target.cpu / 1.2, target.memory / 1.2 / GIB),) * 2
        used = {what: {"reached": {"0.1": getattr(often, what), "0.01": getattr(rare, what)}} for what in ("cpu", "memory")}
        reasons = {"containers": {"app": used}, **(because or {})}
        killed = LastOomKill(at, PodName("shop", "x", "u"), "app", None, counted=True, place=Place("t", 0, 0)) if oom else None
        half, double = Amounts(Cores(target.cpu / 2), target.memory // 2), Amounts(Cores(target.cpu * 2), target.memory * 2)
        container = ContainerRecommendation("app", half, target, upper or double, free or target)
        ident = f"recommender/0/{int(at.timestamp() * 1000)}/requests/{key}"
        amounts = () if none else (container,)
        event = RequestsRecommended(ident, at, Workload.parse(key), amounts, reasons, pods, killed, other_recommender=other)
        partition = SHOP.partition_of(key)
        self.append([self.codec.encode(event, topic="recommendations", key=key, partition=partition, source="/test")])

    def pod(self, key: str, requests: Amounts, *, ago: float = 120, uid: str = "u", phase: PodPhase = PodPhase.RUNNING) -> None:
        workload, at = Workload.parse(key), NOW - timedelta(seconds=ago)
        seen = ContainerSeen("app", requests)
        event = PodChanged(at, workload, PodName(workload.namespace, f"{workload.name}-1", uid), phase, at, (seen,))
        self.append([self.codec.encode(event, topic="pod-changes", key=key, partition=SHOP.partition_of(key), source="/test")])

    def refused(self, key: str, guard: str, reason: str, *, ago: float = 60, because: dict[str, object] | None = None) -> None:
        at, workload = NOW - timedelta(seconds=ago), Workload.parse(key)
        ident = f"updater/0/{int(at.timestamp() * 1000)}/refuse-{guard}/{key}"
        pod = PodName(workload.namespace, f"{workload.name}-1", "u")
        event = UpdateRefused(ident, at, workload, pod, guard, reason, because or {})
        self.append([self.codec.encode(event, topic="pod-updates", key="demo", partition=0, source="/test")])

    def run(self, *words: str) -> int:
        where = ["--set", "log.kind=file", "--set", f"log.path={self.path}", "--set", "topics.partitions=2"]
        return cli.run(["recommendations", *words, *where])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path / "log.jsonl")
    site.pod("demo/shop/Deployment/cart", of(1.0, 4))
    site.recommended("demo/shop/Deployment/cart", of(0.5, 1.0))
    site.pod("demo/shop/Deployment/mail", of(1.0, 1), ago=3.5 * 3600)  # a quiet pod is published every three hours
    site.recommended("demo/shop/Deployment/mail", of(1.0, 1.0))
    site.pod("demo/bank/StatefulSet/books", of(0.1, 0.25))
    site.recommended("demo/bank/StatefulSet/books", of(0.5, 1.0), pods=3)
    site.recommended("demo/bank/Deployment/gone", of(0.1, 0.1))
    site.recommended("elsewhere/shop/Deployment/cart", of(9.0, 9.0))
    return site


def rows(site: Site, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert site.run("-o", "json", *words) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_the_row_that_saves_most_comes_first_and_a_need_comes_last(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(site, capsys)
    assert [row["workload"] for row in found] == ["cart", "gone", "mail", "books"]
    cart, gone, mail, books = found
    assert (cart["saved_cpu_cores"], cart["saved_memory_bytes"]) == (2 * (1.0 - 0.5), 2 * 3 * GIB)
    assert (books["saved_cpu_cores"], books["saved_memory_bytes"]) == (pytest.approx(3 * -0.4), 3 * -GIB * 3 // 4)
    assert (cart["requests_cpu_cores"], cart["target_memory_bytes"], cart["lower_cpu_cores"]) == (1.0, GIB, 0.25)
    assert (mail["requests_cpu_cores"], gone["requests_cpu_cores"], gone["saved_cpu_cores"]) == (1.0, None, None)


def test_risk_and_reason_say_what_staying_as_it_is_may_do(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.pod("demo/shop/Deployment/hungry", of(0.1, 2.0))
    site.recommended("demo/shop/Deployment/hungry", of(0.5, 2.0))
    site.pod("demo/shop/Deployment/killed", of(0.5, 2.0))
    site.recommended("demo/shop/Deployment/killed", of(0.5, 2.0), oom=True)
    site.pod("demo/shop/Deployment/bare", Amounts())
    site.recommended("demo/shop/Deployment/bare", of(0.5, 2.0))
    site.pod("demo/shop/Deployment/short", of(0.6, 1.7))
    site.recommended("demo/shop/Deployment/short", of(0.5, 2.0))
    site.pod("demo/shop/Deployment/spiky", of(0.6, 1.7))
    site.recommended("demo/shop/Deployment/spiky", of(0.6, 1.7), reached=(of(0.1, 1.0), of(0.7, 1.8)))
    assert {row["workload"]: (row["risk"], row["why"]) for row in rows(site, capsys)} == {
        "cart": ("low", "uses less"),
        "mail": ("low", "fits"),
        "books": ("high", "too little memory"),
        "gone": ("unknown", "no pod seen"),
        "hungry": ("medium", "too little CPU"),
        "killed": ("high", "OOM killed lately"),
        "bare": ("medium", "no requests set"),
        "short": ("low", "needs more memory"),
        "spiky": ("medium", "memory peaks over it"),
    }


def test_the_highest_turn_counts_and_a_withdrawn_recommendation_is_not_shown(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.recommended("demo/shop/Deployment/cart", of(0.7, 1.0), ago=3000)  # a worker repeats what it said before a crash
    site.recommended("demo/shop/Deployment/mail", of(0.1, 1.0), ago=1, none=True)
    assert {row["workload"]: row["target_cpu_cores"] for row in rows(site, capsys)}["cart"] == 0.5
    assert "mail" not in {row["workload"] for row in rows(site, capsys)}


@pytest.mark.parametrize(("words", "namespaces"), [(["-n", "bank"], {"bank"}), (["-n", "s*", "-n", "b?nk"], {"shop", "bank"})])
def test_namespaces_may_be_patterns(
    words: list[str], namespaces: set[str], site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {row["namespace"] for row in rows(site, capsys, *words)} == namespaces


def test_a_namespace_in_which_nothing_is_recommended_is_named_with_those_there_are(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run("-n", "shp") == 2
    assert "nothing is recommended in a namespace that matches shp; there are: bank, shop" in capsys.readouterr().err


def test_all_forms_carry_the_same_rows(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    by_json = rows(site, capsys)
    site.run("-o", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == by_json
    site.run("-o", "csv")
    by_csv = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["workload"], row["saved_cpu_cores"]) for row in by_csv] == [
        (row["workload"], "" if row["saved_cpu_cores"] is None else str(row["saved_cpu_cores"])) for row in by_json
    ]


def test_a_table_shows_amounts_as_people_write_them_and_a_sum(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.run() == 0
    said = capsys.readouterr()
    head, cart, *_ = said.out.splitlines()
    assert head.split()[:4] == ["NAMESPACE", "WORKLOAD", "PODS", "CONTAINER"]
    assert "shop       Deployment/cart" in cart
    assert "1000m → 500m" in cart
    assert "4.00 GiB → 1.00 GiB" in cart
    assert "1000m" in cart
    assert "6.00 GiB" in cart
    # saved: cart 1 core and 6 GiB, books -1.2 cores and -2.25 GiB, mail nothing
    assert said.err == (
        "4 containers; by these targets 200m CPU of requests would be added and 3.75 GiB memory freed, "
        "without 1 container whose requests are not set or not known; 1 at high risk as they are\n"
        "1000m CPU, 6.00 GiB memory of what would be freed is held back (containers: mode shadow 1)\n"
    )
    assert site.run("-o", "md", "--limit", "1") == 0
    head, line, row = capsys.readouterr().out.splitlines()
    assert head.startswith("| namespace | workload |")
    assert line.count("---|") == head.count("|") - 1 == row.count("|") - 1


def test_an_upper_bound_is_unbounded_by_the_rule_of_why_and_not_because_it_is_large(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    largest = Amounts(Cores(AMOUNT_LIMIT / 1000), Bytes(int(AMOUNT_LIMIT)))
    site.recommended("demo/shop/Deployment/cart", of(0.5, 1.0), ago=1, upper=largest)
    site.recommended("demo/shop/Deployment/books", of(0.5, 1.0), ago=1, upper=of(20_000.0, 20_000.0))
    assert site.run("-n", "shop") == 0
    rows = capsys.readouterr().out.splitlines()
    cart, books = (next(row for row in rows if f"/{name}" in row) for name in ("cart", "books"))
    assert "250m..unbounded" in cart
    assert "512.0 MiB..unbounded" in cart
    assert "250m..20000.0 cores" in books
    assert "512.0 MiB..19.53 TiB" in books


def test_nothing_yet_says_where_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Site(tmp_path / "log.jsonl").run() == 0
    said = capsys.readouterr()
    assert said.out.startswith("NAMESPACE")
    assert "nothing is recommended for cluster 'demo' yet: `ullage status` says what is waited for" in said.err


def test_a_row_speaks_for_all_pods_and_not_for_the_newest_one(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine pods request 0.75 GiB and the newest one 1 GiB, which is the target; one that has ended counts for nothing."""
    key = "demo/shop/Deployment/leak"
    for number in range(9):
        site.pod(key, of(0.5, 0.75), uid=f"u{number}", ago=600)
    site.pod(key, of(0.5, 1.0), uid="u9", ago=60)
    site.pod(key, of(0.5, 8.0), uid="done", ago=30, phase=PodPhase.SUCCEEDED)
    site.recommended(key, of(0.5, 1.0), pods=10, reached=(of(0.4, 0.7),) * 2)
    [row] = [row for row in rows(site, capsys) if row["workload"] == "leak"]
    assert (row["least_requests_memory_bytes"], row["most_requests_memory_bytes"]) == (0.75 * GIB, GIB)
    assert row["requests_memory_bytes"] == 0.75 * GIB  # what most of them request
    assert row["saved_memory_bytes"] == -9 * 0.25 * GIB
    assert row["why"] == "needs more memory"
    site.run()
    assert "768 MiB..1.00 GiB → 1.00 GiB" in capsys.readouterr().out


def test_a_cluster_that_no_source_has_named_is_refused(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.run("--cluster", "dmeo") == 2
    assert "no source has named a cluster 'dmeo'; the log has 'demo'" in capsys.readouterr().err


def test_what_another_recommender_serves_is_shown_and_marked(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.recommended("demo/shop/Deployment/mail", of(0.1, 1.0), ago=1, other="default")
    found = {row["workload"]: row["other_recommender"] for row in rows(site, capsys)}
    assert (found["mail"], found["cart"]) == ("default", "")
    assert site.run() == 0
    told = capsys.readouterr()
    assert "uses less CPU; VPA of 'default'" in told.out
    assert "1 container with a VPA of another recommender ('default'): shown for comparison, never acted on" in told.err


@pytest.mark.parametrize(("command", "says"), [("recommendations", "cart"), ("status", "clock")])
def test_a_log_file_is_read_without_loading_numpy_or_kafkas_client(site: Site, command: str, says: str) -> None:
    """They take three tenths of a second of the one that people wait, and only usage and brokers need them."""
    words = [command, "--set", "log.kind=file", "--set", f"log.path={site.path}", "--set", "topics.partitions=2"]
    heavy = "{'numpy', 'kafka'} & set(sys.modules)"
    code = f"import sys; from agents import cli; assert cli.run({words!r}) == 0; sys.exit(' '.join({heavy}) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, says in done.stdout) == (0, True), done.stderr


def test_jobs_with_names_of_their_own_are_counted_and_what_helps_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path / "log.jsonl")
    for key in ("demo/shop/Deployment/web", "demo/shop/CronJob/report", "demo/ci/Job/build-1"):
        site.recommended(key, of(1, 1))
    words = ["recommendations", "--log", str(site.path), "--set", "topics.partitions=2", "--cluster", "demo"]
    assert cli.run(words) == 0
    assert "names of their own" not in capsys.readouterr().err
    site.recommended("demo/ci/Job/build-2", of(1, 1))
    site.recommended("demo/ci/Pod/step-x", of(1, 1))
    assert cli.run(words) == 0
    said = capsys.readouterr().err
    assert "3 of these workloads are Jobs and Pods with names of their own, such as 'ci/Job/build-1'" in said
    assert "Runs of a CronJob are one workload (docs/usage.md)" in said


CAPS: list[tuple[str, dict[str, object], str]] = [
    ("capped", {"caps": {"app": ["limit"]}}, "limit"),
    ("capped", {"caps": {"app": ["LimitRange", "limit"], "side": ["policy"]}}, "LimitRange, limit"),
    ("capped", {"caps": {"side": ["limit"]}}, ""),
    ("capped", {"caps": [7]}, "capped"),
    ("quota", {}, "quota"),
    ("hpa", {}, "HPA"),
    ("node", {}, "node"),
    ("service-class", {}, "class"),
    ("limit-range", {}, "LimitRange"),
    ("acceptance", {}, "acceptance"),
    ("rate", {}, ""),
]


@pytest.mark.parametrize(("guard", "because", "held"), CAPS)
def test_a_row_names_the_guard_that_keeps_its_target_from_being_applied(
    guard: str, because: dict[str, object], held: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "demo/shop/Deployment/cart"
    site.refused(key, guard, "what was said before", ago=1_000, because=because)
    site.refused(key, guard, "its bound; raise it", because=because)
    site.refused("demo/shop/Deployment/mail", guard, "was over long ago", ago=40 * 60, because=because)
    found, says = {row["workload"]: (row["held_by"], row["held_because"]) for row in rows(site, capsys)}, "its bound; raise it"
    assert found["cart"] == (held, in_words(guard, says) if held else "")
    assert found["mail"] == ("", "")
    site.run()
    said = capsys.readouterr()
    assert (f"uses less; held by {held}" in said.out) is bool(held)
    assert (f"shop/Deployment/cart is held by {held}: {in_words(guard, says)}" in said.err) is bool(held)


@pytest.mark.parametrize(
    ("free", "because", "told"),
    [
        (2.0, {"policy": {"vpa": "shop/cart", "target": "x"}}, ("policy", "VPA 'shop/cart' bounds it to 1.00 GiB at most")),
        (0.5, {"policy": {"target": "demo/shop/*"}}, ("policy", "policy 'demo/shop/*' bounds it to 1.00 GiB at least")),
        (2.0, {"policy": {"target": "x"}, "node": {"node": "n1"}}, ("node", "cut down to node 'n1'")),
        (2.0, {"policy": None}, ("settings", "the settings bound it to 1.00 GiB")),
        (2.0, {"policy": 7, "node": [8]}, ("settings", "the settings bound it")),
        (1.0, {"policy": {"target": "x"}, "node": {"node": "n1"}}, ("", "")),
    ],
)
def test_a_row_names_what_cut_its_own_recommendation(
    free: float, because: dict[str, object], told: tuple[str, str], site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    held, sentence = told
    site.recommended("demo/shop/Deployment/cart", of(0.5, 1.0), ago=1, free=of(0.5, free), because=because)
    [row] = [row for row in rows(site, capsys) if row["workload"] == "cart"]
    assert row["held_by"] == held
    assert sentence in str(row["held_because"])


def test_many_sentences_on_caps_end_with_where_the_others_are(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        site.recommended(f"demo/shop/Deployment/w{number}", of(0.5, 1.0))
        site.refused(f"demo/shop/Deployment/w{number}", "node", "too large")
    site.run()
    said = capsys.readouterr().err
    assert said.count(f"is held by node: {in_words('node', 'too large')}") == 5
    assert "... and 3 more containers are held: `-o json` has each sentence as 'held_because'" in said


def test_what_may_not_be_applied_now_is_a_sum_of_its_own_with_what_holds_it_back(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cart` would free 1 core and 6 GiB. No mode is set, then its policy, an HPA and a pause forbid it."""

    def held() -> tuple[object, str]:
        assert site.run("-o", "json") == 0
        said = capsys.readouterr()
        row = next(row for row in json.loads(said.out) if row["workload"] == "cart")
        return row["held_back"], said.err

    def put(event: Event, topic: str, key: str) -> None:
        site.append(site.codec.encode_for_all(event, topic=topic, key=key, source="/test"))

    word, said = held()
    assert word == "mode shadow"
    assert "1000m CPU, 6.00 GiB memory of what would be freed is held back (containers: mode shadow 1)" in said
    put(ControlChanged(NOW, "demo", Mode.APPLY), "control", "demo")
    assert held()[0] == "no policy"
    put(VerticalPolicyChanged(NOW, "demo/*", "1", UpdateMode.OFF), "rules", "demo/*")
    assert held()[0] == "update mode Off"
    put(VerticalPolicyChanged(NOW, "demo/*", "2", UpdateMode.RECREATE), "rules", "demo/*")
    word, said = held()
    assert (word, "held back" in said) == ("", False)
    site.refused("demo/shop/Deployment/cart", "hpa", "an HPA scales by CPU")
    assert held()[0] == "HPA"
    put(ControlChanged(NOW, "demo", Mode.APPLY, paused=True), "control", "demo")
    assert held()[0] == "pause"


@pytest.mark.parametrize(
    ("cpu", "memory", "sentence"),
    [
        (0.42, -275.9 * 2**20, "420m CPU of requests would be freed and 275.9 MiB memory added"),
        (0.3, 0, "300m CPU of requests would be freed"),
        (1e-17, -3 * 2**20, "3.0 MiB memory of requests would be added"),
        (-1.0, -5 * 2**20, "1000m CPU and 5.0 MiB memory of requests would be added"),
        (0.0, 0, "no requests would be freed"),
    ],
)
def test_a_sum_says_nothing_of_what_is_nothing(cpu: float, memory: float, sentence: str) -> None:
    assert request_totals.freed_or_added(cpu, memory) == sentence
