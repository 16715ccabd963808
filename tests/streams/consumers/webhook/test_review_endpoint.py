"""Reviews over HTTPS: always an answer, never an error, whatever arrives."""

import copy
import gzip
import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agents.processes import admission_reviewer
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.units import Cores, Seconds
from streams.consumers.webhook import webhook_consumer
from streams.consumers.webhook.review_interface import Review
from streams.own_faults import TOTALS
from streams.serving.https_server import ServerLimits
from tests.support import admission_manifests
from tests.support.admission_scene import CLUSTER, START, AdmissionScene
from tests.support.review_server import ask, connect, serving

FEW, MANY = 1_500, 10_000
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**30, "", "x", "100m", "1e3", "1E-3", "-5", "Infinity", "\ud800", "\x00", "💥",
    "a/b~c", "9" * 400, [], [None], [[]], {}, {"": ""}, {"cpu": 1}, {"cpu": "1e9999999"}, {"memory": "1.5Gi"}, {"cpu": None},
)  # fmt: skip


class Counting(AdmissionScene):
    """A scene that counts nothing over HTTP."""

    def step(self, name: str, seconds: float) -> None:
        """Nobody asks."""

    def looked_up(self, result: str) -> None:
        """Nobody asks."""

    def answered(self, review: Review, objection: str | None, _seconds: float) -> None:
        """A hundred thousand of them would be too many to keep."""


@pytest.fixture
def scene() -> Counting:
    made = Counting()
    made.vpa()
    made.recommend()
    limit = Limit(LimitType.CONTAINER, most=Amounts(Cores(1.0), None))
    event = LimitRangeChanged(START, CLUSTER, "default", "lr", (limit, Limit(LimitType.POD, least=Amounts(Cores(0.2), None))))
    made.policy(event, event.key)
    made.view.catch_up()
    return made


@pytest.fixture
def port(scene: Counting) -> Iterator[int]:
    with serving(scene.admission, scene) as server:
        yield server.port


def test_a_review_is_answered_over_https_with_its_owners_looked_up(port: int) -> None:
    pod = admission_manifests.pod(admission_manifests.container("c", {"cpu": "100m", "memory": "100Mi"}))
    status, body = ask(connect(port), json.dumps(admission_manifests.review(pod)).encode())
    assert status == 200
    done = admission_manifests.applied(pod, admission_manifests.operations(json.loads(body)))
    assert done["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "200Mi"}


def test_a_review_that_is_too_long_is_let_through_under_its_own_uid(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_consumer, "LARGEST", 5 * 1024 * 1024)
    review = json.dumps(admission_manifests.review(admission_manifests.pod(annotations={"long": "x" * 6_000_000}))).encode()
    status, body = ask(connect(port), review)
    response = json.loads(body)["response"]
    assert (status, response["allowed"], response["uid"]) == (200, True, "u-1")
    assert "5242880 are read at most" in response["warnings"][0]


def test_ten_thousand_containers_are_let_through_with_the_bound(port: int) -> None:
    pod = admission_manifests.pod(*(admission_manifests.container(f"c{n}", {"cpu": "1"}) for n in range(10_000)))
    status, body = ask(connect(port), json.dumps(admission_manifests.review(pod)).encode())
    said = json.loads(body)["response"]
    assert (status, said["allowed"], "patch" in said) == (200, True, False)
    assert "spec.containers has 10000 entries, and 1000 are read at most" in said["warnings"][0]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x-gzip", "gzip, gzip"])
def test_a_compressed_review_is_refused_and_nothing_is_unpacked(port: int, encoding: str) -> None:
    bomb = gzip.compress(b" " * (20 << 20))
    to = connect(port)
    to.request("POST", "/", bomb, {"Content-Type": "application/json", "Content-Encoding": encoding})
    answer = to.getresponse()
    assert answer.status == 415
    assert b"a review is sent as it is" in answer.read()
    assert (
        ask(
            connect(port),
            json.dumps(admission_manifests.review(admission_manifests.pod(admission_manifests.container()))).encode(),
        )[0]
        == 200
    )


def test_a_review_of_too_many_values_is_let_through_before_it_is_decoded(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = [{"containerName": f"c{n}", "minAllowed": {"cpu": "1"}} for n in range(45_000)]
    vpa = admission_manifests.vpa(resourcePolicy={"containerPolicies": policies})
    body = json.dumps(admission_manifests.review(vpa, resource="verticalpodautoscalers")).encode()
    monkeypatch.setattr(json, "loads", forbidden := pytest.fail)
    monkeypatch.setattr(admission_reviewer.orjson, "loads", forbidden)
    status, answer = ask(connect(port), body)
    monkeypatch.undo()
    said = json.loads(answer)["response"]
    assert (status, said["allowed"]) == (200, True)
    assert "more than 100000 values" in said["warnings"][0]


def test_a_review_that_outlasts_the_servers_deadline_is_let_through_with_words(
    scene: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def slow(*_: object) -> Review:
        assert answered.wait(60)
        raise AssertionError

    monkeypatch.setattr(scene.view.reviewer, "review", slow)
    pod = admission_manifests.pod(*(admission_manifests.container(f"c{n}", {"cpu": "1"}) for n in range(2_000)))
    with serving(scene.admission, scene, ServerLimits(deadline=Seconds(0.3))) as server:
        status, body = ask(connect(server.port), json.dumps(admission_manifests.review(pod)).encode())
        answered.set()
    response = json.loads(body)["response"]
    assert (status, response["allowed"], response["uid"]) == (200, True, "u-1")
    assert "took longer than 0." in response["warnings"][0]


def test_a_fault_of_ours_lets_the_pod_through(port: int, scene: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Review:
        raise ZeroDivisionError

    monkeypatch.setattr(scene.view.reviewer, "review", broken)
    status, body = ask(connect(port), json.dumps(admission_manifests.review(scene.pod())).encode())
    warning = "ullage: the object is let through as it is: a fault of the webhook's own, ZeroDivisionError"
    assert (status, json.loads(body)["response"]) == (200, {"uid": "u-1", "allowed": True, "warnings": [warning]})


def test_arbitrary_reviews_get_an_answer_each(port: int) -> None:
    _fuzz(port, FEW, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_arbitrary_reviews_get_an_answer_each(port: int) -> None:
    _fuzz(port, MANY, seed=0)


def _fuzz(port: int, count: int, *, seed: int) -> None:
    """Only a VPA object may be denied; every pod is allowed, nothing ends in an error, and nothing is a fault of ours."""
    chance, to, changed, faults = random.Random(seed), connect(port), 0, TOTALS["webhook"]
    for n in range(count):
        body = _review(chance, n)
        status, answer = ask(to, body)
        assert status == 200, body
        response = json.loads(answer)["response"]
        assert response["allowed"] is True or response["status"]["code"] in (422, 500), body
        assert response["allowed"] is True or b"verticalpodautoscalers" in body, body
        assert TOTALS["webhook"] == faults, body
        changed += "patch" in response
    assert changed > count / 100  # the damage leaves enough that is whole


def _review(chance: random.Random, n: int) -> bytes:
    manifest: Any
    if chance.random() < 0.6:
        manifest, resource = _pod(chance), "pods"
    else:
        manifest, resource = _vpa(chance), "verticalpodautoscalers"
    review = admission_manifests.review(
        manifest, resource=resource, uid=f"u-{n}", operation=chance.choice(["CREATE", "CREATE", "UPDATE"])
    )
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        _damage(chance, review)
    body = json.dumps(review).encode(errors="surrogatepass")
    match chance.randrange(40):
        case 0:
            return body[: chance.randrange(len(body))]
        case 1:
            at = chance.randrange(len(body))
            return body[:at] + chance.randbytes(3) + body[at:]
        case 2:
            return chance.randbytes(chance.randrange(100))
    return body


def _pod(chance: random.Random) -> Any:
    containers = []
    for n in range(chance.randrange(4)):
        name = chance.choice(["c", f"c{n}"])
        amounts = {"cpu": chance.choice(["100m", "1", 0.5, "1e-1"]), "memory": chance.choice(["64Mi", 1e6, "1G"])}
        containers.append(admission_manifests.container(name, amounts, chance.choice([None, amounts])))
    return admission_manifests.pod(*containers, annotations=chance.choice([None, {}, {"vpaObservedContainers": "c"}]))


def _vpa(chance: random.Random) -> Any:
    policy = admission_manifests.policy(
        minAllowed={"cpu": chance.choice(["1", "1n", 2])}, mode=chance.choice(["Auto", "Off", "bad"])
    )
    return admission_manifests.vpa(updatePolicy={"updateMode": chance.choice(["Off", "Auto", "bad"])}, resourcePolicy=policy)


def _damage(chance: random.Random, whole: Any) -> None:
    """Put something odd in some place."""
    place = whole
    while True:
        keys = list(place.keys()) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.8:
            place = place[key]
            continue
        if isinstance(place, dict) and chance.random() < 0.2:
            del place[key]
        else:
            place[key] = copy.deepcopy(chance.choice(ODD))
        return
