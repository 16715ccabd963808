"""Old events as today's: what a record of an earlier version becomes when it is read."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from schemas.catalogue import CATALOGUE, Kind
from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import LastOomKill, OomSource, OomSourceState, RequestsRecommended
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import Record
from streams.topics import Topics
from tests.support import golden_wire

CODEC = Codec(Topics())
CART = {"cluster": "prod", "namespace": "shop", "kind": "Deployment", "name": "cart"}
OLD = [(kind, version) for kind in CATALOGUE.kinds for version in range(1, kind.version)]


def read(name: str, version: int, topic: str, body: dict[str, Any]) -> Any:
    headers = (("ce_type", f"ullage.{name}.v{version}".encode()),)
    return CODEC.decode(Record(f"ullage.{topic}.v1", 0, 0, b"k", orjson.dumps(body), headers))


@pytest.mark.parametrize(("kind", "version"), OLD, ids=lambda each: getattr(each, "name", str(each)))
def test_every_golden_file_of_an_older_version_is_still_read(kind: Kind, version: int) -> None:
    shown = orjson.loads(golden_wire.path(kind, version).read_bytes())
    event = read(kind.name, version, kind.topics[0], shown["value"])
    assert type(event) is kind.event
    assert event.at == datetime.fromisoformat(shown["value"]["at"])


def recommended(because: dict[str, Any]) -> RequestsRecommended:
    amounts = {"cpu": 0.5, "memory": 1024}
    container = {"container": "app", **dict.fromkeys(("lower", "target", "upper", "uncapped"), amounts)}
    body = {"id": "r", "at": "2026-01-02T00:00:00Z", "workload": CART, "containers": [container], "because": because}
    event = read("requests-recommended", 1, "recommendations", body)
    assert isinstance(event, RequestsRecommended)
    assert event.workload == Workload(**CART)
    assert event.containers[0].target == Amounts(0.5, 1024)  # type: ignore[arg-type]  # units
    return event


def test_what_code_read_from_because_of_a_recommendation_is_typed_and_the_rest_of_because_stays() -> None:
    kill = {
        "at": "2026-01-01T23:00:00.5Z",
        "pod": "cart-7f9c-x2",
        "uid": "u1",
        "container": "app",
        "memory_request": None,
        "counted": True,
        "place": "ullage.oom-events.v1:3:77",
    }
    source = {"state": "silent", "source": "kube", "at": "2026-01-01T20:00:00Z"}
    event = recommended({"settings": {"margin": 0.15}, "pods": 4, "last_oom": kill, "oom_source": source})
    assert event.because == {"settings": {"margin": 0.15}}
    assert event.pods == 4
    assert event.last_oom == LastOomKill(
        at=datetime(2026, 1, 1, 23, 0, 0, 500_000, tzinfo=UTC),
        pod=PodName("shop", "cart-7f9c-x2", "u1"),
        container="app",
        memory_request=None,
        counted=True,
        place=Place("ullage.oom-events.v1", 3, 77),
    )
    assert event.oom_source == OomSource(OomSourceState.SILENT, "kube", datetime(2026, 1, 1, 20, tzinfo=UTC))


def test_the_reasons_of_an_old_recommendation_keep_the_rules_that_differ_from_its_settings() -> None:
    settings = {"margin": 0.15, "lower_cpu_percentile": 0.5, "target_cpu_percentile": 0.9, "upper_cpu_percentile": 0.95}
    own = {"lower": 0.5, "target": 0.9, "upper": 0.95}
    like_settings = {
        "samples": 3,
        "margin": 0.15,
        "cpu": {"minimum": 0.025, "shares": own, "min_allowed": None, "max_allowed": None},
    }
    by_policy = {"samples": 3, "margin": 0.3, "cpu": {"shares": {**own, "target": 0.99}, "min_allowed": 0.1, "max_allowed": None}}
    event = recommended({"settings": settings, "containers": {"app": like_settings, "proxy": by_policy, "odd": 5}})
    assert event.because["containers"] == {
        "app": {"samples": 3, "cpu": {"minimum": 0.025}},
        "proxy": {"samples": 3, "margin": 0.3, "cpu": {"shares": {**own, "target": 0.99}, "min_allowed": 0.1}},
        "odd": 5,
    }


def test_a_recommendation_that_names_no_pods_kill_or_source_is_lifted_without() -> None:
    event = recommended({"last_oom": None, "oom_source": {"state": "none"}, "margin": 0.15})
    assert (event.pods, event.last_oom, event.oom_source) == (None, None, OomSource(OomSourceState.NONE))
    assert event.because == {"margin": 0.15}


def test_an_old_recommendation_with_a_kill_that_is_none_is_set_aside() -> None:
    with pytest.raises(BadRecord, match="version 1 of requests-recommended cannot be lifted to 2"):
        recommended({"last_oom": {"at": "2026-01-01T23:00:00Z"}})


def test_the_time_of_a_kill_needs_an_offset_from_utc_in_every_version() -> None:
    kill = {"at": "2026-01-01T23:00:00", "pod": "p", "uid": "u", "container": "c", "memory_request": 1, "counted": True}
    with pytest.raises(BadRecord, match="has no offset from UTC") as caught:
        recommended({"last_oom": {**kill, "place": "ullage.oom-events.v1:0:0"}})
    assert caught.value.path == "$.last_oom.at"


def test_an_old_outcome_about_a_pod_of_a_workload_names_that_pod_as_its_subject() -> None:
    body = {
        "id": "updater/0/1/evict/u1/evict/u1",
        "at": "2026-01-02T00:00:00Z",
        "decision": "updater/0/1/evict/u1",
        "action": "evict",
        "result": "done",
        "reason": "gone",
        "workload": CART,
        "pod": {"namespace": "shop", "name": "cart-x2", "uid": "u1"},
    }
    event = read("action-finished", 1, "outcomes", body)
    wanted = Subject.of_pod(Workload(**CART), PodName("shop", "cart-x2", "u1"))
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert event == ActionFinished(body["id"], at, body["decision"], Action.EVICT, Result.DONE, "gone", wanted)


@pytest.mark.parametrize("name", ["resize-planned", "eviction-planned", "update-refused"])
def test_the_recommendation_that_an_update_rests_on_is_typed_and_an_old_plan_ends_when_it_expires(name: str) -> None:
    body = orjson.loads((golden_wire.FOLDER / f"{name}.v1.json").read_bytes())["value"]
    event = read(name, 1, "pod-updates", {**body, "because": {"mode": "apply", "recommendation": "r1"}})
    assert event.recommendation == "r1"
    assert event.because == {"mode": "apply"}
    assert read(name, 1, "pod-updates", {**body, "because": {}}).recommendation == ""
    if name != "update-refused":
        assert event.void_after == event.expires
