"""What the doctor says of a cluster: rights against the rbac files, a clock that is off, and a cluster that is not there."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from agents import cli
from agents.commands.health import doctor_cluster_checks
from agents.processes.component_rights import KEPT, RIGHTS
from agents.settings.all_settings import ClusterSettings, LogSettings, Settings
from agents.settings.usage_source_settings import PrometheusSettings, UsageSourceSettings
from schemas.facts.sources import SourceReported
from schemas.units import Seconds
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.support.canned_http_server import answering

RBAC = Path(__file__).parents[4] / "deploy/helm/ullage/rbac"
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def granted(component: str) -> set[tuple[str, str, str]]:
    """All that a component's cluster-wide rules grant, and what its own namespace's do."""
    found = set()
    for document in yaml.safe_load_all((RBAC / f"{component.replace(' ', '-')}.yaml").read_text(encoding="utf-8")):
        for rule in document.get("rules", ()):
            found |= {(v, g, r) for v in rule["verbs"] for g in rule["apiGroups"] for r in rule["resources"]}
    return found


@pytest.mark.parametrize("component", RIGHTS)
def test_the_doctor_asks_for_no_right_that_a_component_is_not_granted(component: str) -> None:
    assert {(right.verb, right.group, right.resource) for right in RIGHTS[component]} <= granted(component)


OPTIONAL = {
    *("*/scale", "clusterroles", "effectivehorizontalpodautoscalers/finalizers"),
    *("capacitybuffers", "capacitybuffers/status", "podtemplates"),
}
"""Without these a component works on: controllers of kinds that were installed, who goes with whom, and room to spare."""


@pytest.mark.parametrize("component", RIGHTS)
def test_the_doctor_asks_for_every_right_that_a_component_cannot_do_without(component: str) -> None:
    asked = {(right.verb, right.group, right.resource) for right in (*RIGHTS[component], *KEPT[component])}
    priorities = {(verb, "", "configmaps") for verb in ("list", "watch")}  # one expander's
    assert {right for right in granted(component) - priorities if right[2] not in OPTIONAL} <= asked


@pytest.mark.parametrize("component", KEPT)
def test_a_right_on_a_named_object_is_asked_for_by_the_name_that_the_role_has(component: str) -> None:
    names = set()
    for document in yaml.safe_load_all((RBAC / f"{component.replace(' ', '-')}.yaml").read_text(encoding="utf-8")):
        names |= {name for rule in document.get("rules", ()) for name in rule.get("resourceNames", ())}
    assert {right.name for right in KEPT[component] if right.name} <= names


@pytest.mark.parametrize(
    ("date", "level", "said"),
    [
        ("Mon, 05 Jan 2026 12:00:20 GMT", "ok", "agree within 30 s"),
        ("Mon, 05 Jan 2026 12:05:00 GMT", "fail", "is 300 s ahead of this machine's"),
        ("Mon, 05 Jan 2026 11:58:00 GMT", "fail", "is 120 s behind this machine's"),
        ("yesterday", "warn", "the server's Date 'yesterday' is no time"),
    ],
)
def test_a_clock_that_is_off_is_named(date: str, level: str, said: str) -> None:
    check = doctor_cluster_checks.clock_skew(date, NOW)
    assert check.level == level
    assert said in check.finding


@pytest.mark.parametrize(
    ("code", "applied", "level", "said"),
    [
        (200, True, "ok", "is registered"),
        (404, True, "warn", "is not registered, so nobody is evicted"),
        (404, False, "ok", "mode apply needs it"),
        (403, True, "ok", "may not look"),
    ],
)
def test_a_webhook_that_is_missing_is_a_warning_only_where_changes_are_allowed(
    code: int, applied: bool, level: str, said: str
) -> None:
    check = doctor_cluster_checks.webhook(code, "ullage-webhook", applied=applied)
    assert check.level == level
    assert said in check.finding


@pytest.mark.parametrize(
    ("code", "asked", "level"), [(200, False, "ok"), (404, True, "fail"), (404, False, "ok"), (403, True, "warn")]
)
def test_a_metrics_api_that_is_missing_is_a_failure_only_where_usage_is_read_there(code: int, asked: bool, level: str) -> None:
    assert doctor_cluster_checks.metrics_api(code, asked=asked).level == level


@pytest.mark.parametrize(
    ("result", "level", "said"),
    [
        ([{"metric": {}, "value": [1.0, "12"]}], "ok", "answers, and has usage of 12 containers"),
        ([], "fail", "has no usage of any container"),
    ],
)
def test_a_prometheus_that_knows_no_container_by_the_settings_names_is_a_failure(
    result: list[object], level: str, said: str
) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
    with answering(lambda _asked: (200, body)) as server:
        reads, where = UsageSourceSettings(reads="prometheus"), PrometheusSettings(url=server.url)
        check = doctor_cluster_checks.prometheus(Settings(usage=reads, prometheus=where))
    assert check.level == level
    assert said in check.finding
    assert not check.fix or "prometheus.job 'kubernetes-cadvisor'" in check.fix


def test_a_prometheus_that_does_not_answer_is_a_warning_for_it_may_only_answer_in_the_cluster() -> None:
    check = doctor_cluster_checks.prometheus(Settings(prometheus=PrometheusSettings(url="http://127.0.0.1:1")))
    assert check.level == "warn"
    assert "nobody answers there" in check.finding


@pytest.mark.parametrize(
    ("nodes", "replicas", "there"),
    [
        (False, False, set()),
        (True, False, {"consumer asg"}),
        (False, True, {"consumer autoscalers", "consumer metrics-api"}),
    ],
)
def test_rights_are_asked_for_of_what_the_settings_turn_on(nodes: bool, replicas: bool, there: set[str]) -> None:
    listed = set(doctor_cluster_checks.components(Settings(cluster=ClusterSettings(nodes=nodes, replicas=replicas))))
    assert listed & {"consumer asg", "consumer autoscalers", "consumer metrics-api"} == there


def test_a_kubeconfig_that_does_not_exist_is_not_ok(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["doctor", "--set", "log.kind=memory", "--set", "cluster.kubeconfig=/no/such/file"])
    assert "warn  cluster   cluster.kubeconfig '/no/such/file' is no file" in capsys.readouterr().out


def test_a_cluster_that_does_not_answer_is_a_failure_with_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--set", "log.kind=memory", "--set", "cluster.url=http://127.0.0.1:1"]) == 1
    assert "fail  cluster   http://127.0.0.1:1 does not answer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sees", "lacks", "level", "said"),
    [
        (None, (), "warn", "no source takes in what senders bring"),
        ((), (), "fail", "no sender brought a sample"),
        (("pod-metrics",), ("the answer names no container",), "warn", "names no container"),
        (("pod-metrics",), (), "ok", "senders bring usage"),
    ],
)
def test_what_senders_bring_is_judged_by_what_the_source_last_reported(
    tmp_path: Path, sees: tuple[str, ...] | None, lacks: tuple[str, ...], level: str, said: str
) -> None:
    topics, path = Topics(), tmp_path / "log.jsonl"
    with FileLog.open_or_create(path) as log:
        for topic in TOPICS:
            log.create(topics.wire(topic.name), topics.partitions)
        if sees is not None:
            report = SourceReported(datetime(2026, 11, 28, tzinfo=UTC), "demo", "usage", sees, Seconds(60.0), lacks)
            log.append(Codec(topics).encode_for_all(report, topic="cluster-changes", key="demo", source="test"))
    log_settings = LogSettings(kind="file", path=path)
    (check,) = doctor_cluster_checks.received(Settings(log=log_settings, usage=UsageSourceSettings(reads="remote-write")))
    assert (check.level, said in check.finding) == (level, True)
