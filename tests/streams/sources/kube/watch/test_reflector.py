"""One resource kept in sight, against a scripted server on loopback."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import structlog.testing

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.list_watch_requests import ApiResource, ListWatchClient
from streams.clients.kube.watched_objects import NodeObject
from streams.sources.kube.watch.notifications import Notification, ObjectGone, ObjectSeen, WatchFailed, WatchSynced
from streams.sources.kube.watch.reflector import FORBIDDEN_WAIT, Reflector
from streams.sources.kube.watch.watched_resources import ResourceWatch
from tests.support.scripted_api import Reply, ScriptedApi, line, listed, refusal, stream

NODES = ApiResource("nodes", "/api/v1/nodes", NodeObject)
INSTALLED = ApiResource("gizmos", "/apis/example.org/v1/gizmos", NodeObject)


class Scene:
    def __init__(self, server: ScriptedApi, resource: ApiResource[NodeObject] = NODES) -> None:
        self.server = server
        self.notifications: list[Notification] = []
        api = Api(cluster_factory.connection(ClusterSettings(url=server.url)), timeout=Seconds(5.0))
        self.reflector = Reflector(
            ListWatchClient(api, stream_timeout=Seconds(3.0)), ResourceWatch(resource.name, resource), self.notifications.extend
        )

    def steps(self, count: int) -> list[float]:
        return [float(self.reflector.step()) for _ in range(count)]

    def words(self) -> list[str]:
        """`+a2` for a seen at version 2, `-a` for a gone, `in sync`, `blind`."""
        found = []
        for change in self.notifications:
            match change:
                case ObjectSeen():
                    found.append(f"+{change.object.metadata.name}{change.object.metadata.resource_version}")
                case ObjectGone():
                    found.append(f"-{change.name}")
                case WatchSynced():
                    found.append("in sync")
                case WatchFailed():
                    found.append("blind")
        return found


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    with ExitStack() as stack:
        yield lambda *script, of=NODES: Scene(stack.enter_context(ScriptedApi(script).serving()), of)


def node(name: str, version: str, uid: str = "") -> dict[str, object]:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": version}}


def bookmark(version: str) -> str:
    return line("BOOKMARK", {"metadata": {"resourceVersion": version}})


Making = Callable[..., Scene]


def test_a_list_comes_in_pages_and_the_watch_goes_on_from_its_version(scene: Making) -> None:
    here = scene(
        listed(node("a", "1"), version="7", more="next"),
        listed(node("b", "2"), version="7"),
        stream(line("MODIFIED", node("a", "8")), line("DELETED", node("b", "9"))),
    )
    assert here.steps(2) == [0.0, 0.0]
    assert here.words() == ["+a1", "+b2", "in sync", "+a8", "-b"]
    pages = [query for _, query in here.server.requests]
    assert pages[0] == {"limit": "500"}
    assert pages[1] == {"limit": "500", "continue": "next"}
    assert pages[2] == {"watch": "true", "resourceVersion": "7", "allowWatchBookmarks": "true", "timeoutSeconds": "3"}


def test_a_bookmark_moves_the_version_from_which_the_next_stream_goes_on(scene: Making) -> None:
    here = scene(listed(node("a", "1"), version="7"), stream(bookmark("50")), stream(bookmark("60")))
    assert here.steps(3) == [0.0, 0.0, 0.0]
    assert here.words() == ["+a1", "in sync"]
    assert [query.get("resourceVersion") for _, query in here.server.requests] == [None, "7", "50"]


def test_a_stream_that_breaks_is_resumed_where_it_was_soon_and_quietly(scene: Making) -> None:
    here = scene(
        listed(node("a", "1"), version="7"),
        stream(line("MODIFIED", node("a", "8")), broken=True),
        stream(line("ADDED", node("c", "9"))),
    )
    assert here.steps(3) == [0.0, 0.25, 0.0]
    assert here.words() == ["+a1", "in sync", "+a8", "+c9"]
    assert here.server.requests[2][1]["resourceVersion"] == "8"


@pytest.mark.parametrize(
    "expired",
    [Reply(refusal(410, "too old resource version"), 410), stream(line("ERROR", refusal(410, "too old resource version")))],
)
def test_after_a_version_that_is_too_old_a_list_shows_what_changed_and_what_is_gone(scene: Making, expired: Reply) -> None:
    here = scene(
        listed(node("a", "1"), node("b", "2"), node("c", "3"), version="7"),
        expired,
        listed(node("a", "1"), node("b", "20"), node("d", "21"), version="30"),
        stream(),
    )
    assert here.steps(4) == [0.0, 0.25, 0.0, 0.25]
    assert here.words() == ["+a1", "+b2", "+c3", "in sync", "+b20", "+d21", "-c"]
    assert here.server.requests[3][1]["resourceVersion"] == "30"


def test_a_name_that_came_back_with_another_uid_means_that_the_first_is_gone(scene: Making) -> None:
    here = scene(
        listed(node("a", "1", uid="old"), version="7"),
        Reply(refusal(410, "expired"), 410),
        listed(node("a", "9", uid="new"), version="10"),
    )
    here.steps(3)
    assert here.words() == ["+a1", "in sync", "-a", "+a9"]
    assert [change.uid for change in here.notifications if isinstance(change, ObjectGone)] == ["old"]


def test_an_object_that_cannot_be_read_is_passed_over_and_named(scene: Making) -> None:
    odd = {"metadata": {"name": "odd", "uid": "u", "resourceVersion": "8"}, "spec": {"unschedulable": "perhaps"}}
    here = scene(listed(odd, node("a", "1"), version="7"), stream(line("MODIFIED", odd), line("ADDED", node("b", "9"))))
    with structlog.testing.capture_logs() as lines:
        assert here.steps(2) == [0.0, 0.0]
    assert here.words() == ["+a1", "in sync", "+b9"]
    assert "default/odd" in str(lines)
    assert "spec.unschedulable" in str(lines)


def test_the_predecessor_of_an_object_that_cannot_be_read_is_gone(scene: Making) -> None:
    bad = {**node("a", "2", uid="another"), "spec": {"unschedulable": 7}}
    here = scene(listed(node("a", "1"), version="7"), stream(line("ADDED", bad)))
    here.steps(2)
    assert here.words() == ["+a1", "in sync", "-a"]


def test_a_line_that_is_no_json_means_a_list(scene: Making) -> None:
    here = scene(
        listed(node("a", "1"), version="7"),
        stream(line("MODIFIED", node("a", "8")), "garbage", line("MODIFIED", node("a", "9"))),
        listed(node("a", "9"), version="9"),
    )
    assert here.steps(3) == [0.0, 0.25, 0.0]
    assert here.words() == ["+a1", "in sync", "+a8", "+a9"]


def test_what_is_not_allowed_is_reported_once_and_asked_for_seldom(scene: Making) -> None:
    no = Reply(refusal(403, "nodes is forbidden"), 403)
    here = scene(no, no, listed(version="7"))
    assert here.steps(3) == [FORBIDDEN_WAIT, FORBIDDEN_WAIT, 0.0]
    assert here.words() == ["blind", "in sync"]
    (blind,) = [change for change in here.notifications if isinstance(change, WatchFailed)]
    assert blind.reason == "listing 'nodes' did not work: 403 nodes is forbidden"
    assert blind.refused


MISSING = Reply(refusal(404, "the server could not find the requested resource"), 404)


def test_a_type_that_is_not_installed_means_that_there_is_none_of_it(scene: Making) -> None:
    here = scene(MISSING, listed(node("a", "1"), version="7"), of=INSTALLED)
    assert here.steps(2) == [FORBIDDEN_WAIT, 0.0]
    assert here.words() == ["in sync", "+a1"]


def test_a_type_that_was_there_does_not_count_as_uninstalled_at_once(scene: Making) -> None:
    """The script: a blip of 404s after which all is as it was, and then 404s that go on."""
    good = listed(node("a", "1"), version="7")
    here = scene(good, MISSING, MISSING, good, stream(bookmark("8")), *[MISSING] * 6, of=INSTALLED)
    here.steps(5)
    assert here.words() == ["+a1", "in sync", "blind", "in sync"]
    here.steps(6)
    assert here.words()[4:] == ["blind", "-a", "in sync"]


def test_a_built_in_type_that_is_not_found_is_a_failure_and_never_gone(scene: Making) -> None:
    here = scene(listed(node("a", "1"), version="7"), *[MISSING] * 8)
    assert here.steps(9) == [0.0, *[FORBIDDEN_WAIT] * 8]
    assert here.words() == ["+a1", "in sync", "blind"]


def test_streams_that_end_without_an_event_are_opened_again_after_longer_and_longer_pauses(scene: Making) -> None:
    here = scene(listed(version="7"), *[stream()] * 7, stream(bookmark("8")), stream())
    assert here.steps(10) == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 0.0, 0.25]
    assert here.words() == ["in sync"]


@pytest.mark.parametrize("garbage", [line("ERROR", {"code": "many"}), '{"type":"BOOKMARK","object":7}'])
def test_an_error_or_bookmark_that_cannot_be_read_means_a_list(scene: Making, garbage: str) -> None:
    here = scene(listed(version="7"), stream(garbage), listed(node("a", "9"), version="9"))
    assert here.steps(3) == [0.0, 0.25, 0.0]
    assert here.words() == ["in sync", "+a9"]


def test_a_server_that_asks_for_a_pause_gets_it(scene: Making) -> None:
    here = scene(Reply(refusal(429, "too many"), 429, headers={"Retry-After": "7"}), listed(version="7"))
    assert here.steps(2) == [7.0, 0.0]
    assert here.words() == ["blind", "in sync"]


def test_a_pause_that_is_no_number_is_ten_seconds(scene: Making) -> None:
    here = scene(Reply(refusal(503, "later"), 503, headers={"Retry-After": "\N{SUPERSCRIPT TWO}"}))
    assert here.steps(1) == [10.0]


def test_a_server_that_does_not_answer_is_asked_after_longer_and_longer_pauses(scene: Making) -> None:
    here = scene(listed(node("a", "1"), version="7"))
    here.steps(1)
    here.server.stop()
    assert here.steps(8) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert here.words() == ["+a1", "in sync", "blind"]


def test_a_server_that_never_knows_the_version_is_listed_after_some_refusals(scene: Making) -> None:
    ahead = Reply(refusal(504, "Too large resource version"), 504)
    here = scene(listed(node("a", "9"), version="90"), *[ahead] * 5, listed(node("a", "2"), version="3"), stream())
    here.steps(8)
    assert here.words() == ["+a9", "in sync", "blind", "+a2", "in sync"]


def test_a_list_that_takes_too_long_begins_again_and_reports_nothing_twice(scene: Making) -> None:
    here = scene(
        listed(node("a", "1"), version="7", more="next"),
        Reply(refusal(410, "the provided continue parameter is too old"), 410),
        listed(node("a", "1"), node("b", "2"), version="8"),
    )
    here.steps(2)
    assert here.words() == ["+a1", "blind", "+b2", "in sync"]
