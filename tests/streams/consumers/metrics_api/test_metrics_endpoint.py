"""The metrics API over TLS: whom it answers, in which words, and what it says of itself."""

import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.policies.scaling import PredictionOptions
from streams.serving.https_server import HttpsServer
from tests.support.certificates import Authority
from tests.support.metrics_api_scene import AT, Asker, MetricsApiScene, ehpa, forecast, question, selector

PREDICTION, CRON = "crane_autoscaling_prediction", "crane_autoscaling_cron"
ROOT = "/apis/external.metrics.k8s.io/v1beta1"
CUSTOM_ROOT = "/apis/custom.metrics.k8s.io/v1beta2"


@pytest.fixture
def scene(tmp_path: Path) -> MetricsApiScene:
    made = MetricsApiScene(tmp_path)
    made.tick(AT)
    made.say(ehpa(), forecast())
    made.view.catch_up()
    return made


@pytest.fixture
def server(scene: MetricsApiScene) -> Iterator[HttpsServer]:
    with scene.serving() as made:
        yield made


@pytest.fixture
def asker(scene: MetricsApiScene, server: HttpsServer) -> Asker:
    return scene.connect(server)


def test_an_answer_is_in_the_apis_own_words(asker: Asker) -> None:
    code, body = asker.ask(question(PREDICTION, selector()))
    assert code == 200
    assert body == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": PREDICTION,
                "metricLabels": selector(),
                "timestamp": "2026-01-01T00:00:00Z",
                "value": "5900m",
            }
        ],
    }
    assert asker.value(CRON, selector(identifier="cron")) == "4"


def test_a_change_in_the_log_is_in_the_next_answer(scene: MetricsApiScene, asker: Asker) -> None:
    scene.say(forecast("web", 8.0, turn=2))
    scene.view.catch_up()
    assert asker.value(PREDICTION, selector()) == "8"
    scene.say(forecast("web", 1.0, turn=1))  # a late repeat of an older turn
    scene.view.catch_up()
    assert asker.value(PREDICTION, selector()) == "8"


def test_without_the_log_forecasts_expire_all_the_same(scene: MetricsApiScene, asker: Asker) -> None:
    scene.now = AT + timedelta(minutes=61)
    code, body = asker.ask(question(PREDICTION, selector()))
    assert (code, body["reason"]) == (404, "NotFound")
    assert "is outdated" in body["message"]


def test_nobody_but_the_aggregation_layer_is_answered(scene: MetricsApiScene, server: HttpsServer) -> None:
    for path in (question(PREDICTION, selector()), "/apis", ROOT):
        for name in (None, "somebody"):
            code, body = scene.connect(server, name).ask(path)
            assert (code, body["reason"]) == (401, "Unauthorized")
        assert scene.connect(server).ask(path, X_Remote_User="")[0] == 401


def test_a_certificate_of_somebody_elses_authority_is_refused_in_the_handshake(
    scene: MetricsApiScene, server: HttpsServer, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority.make(tmp_path / "other", "front")
    with pytest.raises((ssl.SSLError, OSError)):
        scene.connect(server, by=other).ask(ROOT)


def test_an_authority_that_is_renewed_is_believed_from_then_on(
    scene: MetricsApiScene, server: HttpsServer, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    new = Authority.make(tmp_path / "new", "front")
    scene.holder.trust(new.file.read_bytes())
    assert scene.connect(server, by=new).ask(ROOT)[0] == 200


def test_before_the_cluster_said_whom_to_believe_nobody_is(scene: MetricsApiScene, asker: Asker) -> None:
    scene.endpoint.trust = None
    assert asker.ask(ROOT)[0] == 401


def test_before_the_log_was_read_there_is_no_answer_and_it_is_not_ready(tmp_path: Path) -> None:
    scene = MetricsApiScene(tmp_path)
    scene.tick(AT)
    scene.say(ehpa(), forecast())
    with scene.serving() as server:
        asker = scene.connect(server)
        code, body = asker.ask(question(PREDICTION, selector()))
        assert (code, body["reason"]) == (503, "ServiceUnavailable")
        probe = scene.connect(server, None)
        assert probe.ask("/readyz")[0] == 503
        assert probe.ask("/livez") == (200, "ok")
        scene.view.catch_up()
        assert probe.ask("/readyz") == (200, "ok")
        assert asker.value(PREDICTION, selector()) == "5900m"


def test_it_says_what_there_is_in_the_old_way_and_in_the_new(asker: Asker) -> None:
    names = [CRON, PREDICTION]
    assert [each["name"] for each in asker.ask(ROOT)[1]["resources"]] == names
    assert asker.ask("/apis/external.metrics.k8s.io")[1]["preferredVersion"]["version"] == "v1beta1"
    assert [each["name"] for each in asker.ask("/apis")[1]["groups"]] == ["external.metrics.k8s.io", "custom.metrics.k8s.io"]
    assert f"deployments.apps/{CRON}" in [each["name"] for each in asker.ask(CUSTOM_ROOT)[1]["resources"]]
    new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    external, custom = asker.ask("/apis", Accept=new)[1]["items"]
    assert [each["resource"] for each in external["versions"][0]["resources"]] == names
    assert custom["versions"][0]["resources"][0]["responseKind"]["kind"] == "MetricValueList"
    for path in asker.ask("/openapi/v3")[1]["paths"].values():
        assert asker.ask(path["serverRelativeURL"])[1]["openapi"] == "3.0.0"


def test_the_same_forecast_and_crons_answer_a_question_about_the_object(asker: Asker) -> None:
    path = f"{CUSTOM_ROOT}/namespaces/shop/deployments.apps/web"
    code, body = asker.ask(f"{path}/{PREDICTION}?metricLabelSelector=resourceIdentifier%3Dresource.cpu")
    assert code == 200
    assert body == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": [
            {
                "describedObject": {"kind": "Deployment", "namespace": "shop", "name": "web", "apiVersion": "apps/v1"},
                "metric": {"name": PREDICTION, "selector": {"matchLabels": {"resourceIdentifier": "resource.cpu"}}},
                "timestamp": "2026-01-01T00:00:00Z",
                "value": "5900m",
            }
        ],
    }
    assert asker.ask(f"{path}/{CRON}")[1]["items"][0]["value"] == "4"


@pytest.mark.parametrize(
    ("path", "code", "why"),
    [
        (f"{CUSTOM_ROOT}/namespaces/shop/pods/web-1/{CRON}", 400, "there are no metrics of 'pods'"),
        (f"{CUSTOM_ROOT}/namespaces/shop/deployments.apps/other/{CRON}", 404, "no EHPA with crons scales Deployment"),
        (f"{CUSTOM_ROOT}/namespaces/shop/deployments.apps/web/{PREDICTION}", 404, "does not say 'resourceIdentifier'"),
        ("/apis/custom.metrics.k8s.io/v1beta1", 404, "there is no '/apis/custom.metrics.k8s.io/v1beta1' here"),
        (question("depth", selector()), 404, "there is no external metric 'depth'"),
        (f"{ROOT}/namespaces/shop/{PREDICTION}?labelSelector=a+in+(b,c)", 400, "in another way than by one value"),
        (f"{ROOT}/namespaces/shop/{PREDICTION}?labelSelector=((", 400, "is no part of a label selector"),
        (f"{ROOT}/namespaces/shop/{PREDICTION}", 404, "the selector does not say 'resourceIdentifier'"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(asker: Asker, path: str, code: int, why: str) -> None:
    found, body = asker.ask(path)
    assert (found, body["kind"]) == (code, "Status")
    assert why in body["message"]


def test_answers_are_counted_and_names_that_somebody_makes_up_are_one_name(scene: MetricsApiScene, asker: Asker) -> None:
    asker.value(PREDICTION, selector())
    asker.value("made-up", selector())
    assert scene.counted == [(PREDICTION, "OK"), ("other", "Not Found")]


def test_a_view_that_starts_reads_as_far_back_as_the_longest_window_asks_for(tmp_path: Path) -> None:
    scene = MetricsApiScene(tmp_path)
    scene.say(ehpa(prediction=None), forecast("web", *([6.0] * 48), at=AT - timedelta(hours=5), expires=AT + timedelta(hours=3)))
    for minutes in range(0, 301, 1):
        # How far the topic got is told by its newest records: without later ones nothing is left out.
        scene.say(forecast("other", at=AT - timedelta(minutes=300 - minutes)))
        scene.tick(AT - timedelta(minutes=300 - minutes))
    scene.view.catch_up()
    with scene.serving() as server:
        assert scene.connect(server).value(PREDICTION, selector()) == "no forecast belongs to what the selector says"
    scene.say(ehpa())
    for window, value in ((3600, "no forecast belongs to what the selector says"), (3 * 3600, "6")):
        scene = again(scene, tmp_path, window)
        with scene.serving() as server:
            assert scene.connect(server).value(PREDICTION, selector()) == value


def again(before: MetricsApiScene, folder: Path, window: int) -> MetricsApiScene:
    """A process that starts anew on the same log, in which the EHPA now asks for such a window."""
    made = MetricsApiScene(folder, log=before.log)
    made.say(ehpa(prediction=PredictionOptions(window, None)))
    made.view.catch_up()
    return made
