"""`ullage source kube` as a process: reaches the cluster by kubeconfig, needs no more rights than it says, ends when asked."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.facts.nodes import NodeChanged
from schemas.facts.pods import PodChanged
from schemas.facts.sources import SourceReported
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.readiness import reasons
from tests.controlplane.world import World
from tests.support import chart_rights

TOPICS_HERE = Topics(partitions=1)
VPAS = "autoscaling.k8s.io"
RIGHTS = {
    **chart_rights.watched(),
    "coordination.k8s.io": ("leases",),
    VPAS: ("verticalpodautoscalers", "verticalpodautoscalercheckpoints"),
}
"""What the kube source needs to list and watch; the scale of other controllers comes to that."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    with FileLog.open_or_create(path) as made:
        for topic in TOPICS:
            made.create(TOPICS_HERE.wire(topic.name), 1)
    return path


def kubeconfig(plane: Plane, world: World, folder: Path, kinds: Mapping[str, Sequence[str]]) -> Path:
    """Of a service account that may list and watch these, and nothing else."""
    name = world.namespace
    rules = [{"apiGroups": [group], "resources": list(names), "verbs": ["list", "watch"]} for group, names in kinds.items()]
    rbac, core = "/apis/rbac.authorization.k8s.io/v1", f"/api/v1/namespaces/{name}/serviceaccounts"
    subject = {"kind": "ServiceAccount", "name": "kube", "namespace": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    world.ask.post(core, {"metadata": {"name": "kube"}})
    world.ask.post(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    world.ask.post(f"{rbac}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    token = world.ask.post(f"{core}/kube/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "kube"}}],
        "clusters": [{"name": "here", "cluster": {"server": plane.url, "certificate-authority": str(plane.ca)}}],
        "users": [{"name": "kube", "user": {"token": token}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


@contextmanager
def watching(config: Path, log: Path, folder: Path, *more: str) -> Iterator[str]:
    """The process, with `more` settings; gives the address of its health, and holds that it ends well."""
    (port,) = free_ports(1)
    settings = [
        "log.kind=file",
        f"log.path={log}",
        "topics.partitions=1",
        "cluster.name=real",
        f"cluster.kubeconfig={config}",
        f"metrics.port={port}",
        *more,
    ]
    command = [sys.executable, "-m", "agents", "source", "kube", *(part for each in settings for part in ("--set", each))]
    with (folder / "said.txt").open("w", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(60.0) == 0
            except subprocess.TimeoutExpired:
                pytest.fail(f"60 s after SIGTERM it had not ended; it said:\n{(folder / 'said.txt').read_text(encoding='utf-8')}")
        finally:
            process.kill()
            process.wait(60.0)


def begin_with(texts: list[str] | None, beginnings: list[str]) -> bool:
    """Whether there are as many texts as beginnings, and each begins with its own."""
    return texts is not None and len(texts) == len(beginnings) and all(map(str.startswith, texts, beginnings))


def logged(log: Path, topic: str) -> list[object]:
    with FileLog(log) as held:
        records = held.poll({(TOPICS_HERE.wire(topic), 0): 0}, limit=1_000_000)
        return [Codec(TOPICS_HERE).decode(record) for record in records if not is_of_a_clock(record)]


def test_it_watches_with_the_rights_to_list_and_watch_alone_and_is_ready_when_all_is_seen(
    plane: Plane, world: World, log: Path, tmp_path: Path
) -> None:
    (pod,) = world.deployment("web")
    with watching(kubeconfig(plane, world, tmp_path, RIGHTS), log, tmp_path) as url:
        wait_for(lambda: reasons(f"{url}/readyz") == [], timeout=40.0, what="it is ready")
        published = [event for event in logged(log, "pod-changes") if isinstance(event, PodChanged)]
        assert pod["metadata"]["uid"] in {event.pod.uid for event in published}
        assert {"base-1", "base-2", "base-3"} <= {e.node for e in logged(log, "cluster-changes") if isinstance(e, NodeChanged)}
        with urllib.request.urlopen(f"{url}/metrics", timeout=5.0) as answer:  # noqa: S310  # loopback
            metrics = answer.read().decode()
        assert 'ullage_source_records_total{source="kube",topic="pod-changes"}' in metrics
    assert "Traceback" not in (tmp_path / "said.txt").read_text(encoding="utf-8")


def test_what_it_may_not_see_it_names_and_does_not_vouch_for(plane: Plane, world: World, log: Path, tmp_path: Path) -> None:
    few = {group: [name for name in names if name != "events"] for group, names in RIGHTS.items() if group != VPAS}
    with watching(kubeconfig(plane, world, tmp_path, few), log, tmp_path) as url:
        expected = [
            "events cannot be seen: listing 'events' did not work: 403",
            "failed creations cannot be seen: listing 'failed creations' did not work: 403",
            "verticalpodautoscalers cannot be seen",
        ]
        wait_for(lambda: begin_with(reasons(f"{url}/readyz"), expected), timeout=40.0, what="these alone are out of sight")
    reports = [event for event in logged(log, "cluster-changes") if isinstance(event, SourceReported)]
    assert all(not {"oom-events", "policies"} & set(report.sees) for report in reports)
