"""Data flows one way through the kube source: from watch over owners to publish, and rarely back to where it came from."""

import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from schemas.units import Seconds
from streams.clients.kube.list_watch_requests import ApiResource, ListedObject, ListPage, WatchEvent
from streams.clients.kube.watched_objects import KubeObject
from streams.sources.kube.watch.reflector import Reflector
from streams.sources.kube.watch_threads import Inbox, watches
from tests.support.kube_objects import controller, owner, pod, running
from tests.support.kube_scene import KubeScene

SOURCE = "streams.sources.kube."
MOST_RETURNS = 3


class OnePod:
    """A server that lists nothing, and whose first stream shows one pod."""

    def __init__(self, found: KubeObject) -> None:
        self.found = found

    def list_pages(self, _resource: ApiResource[KubeObject]) -> Iterator[ListPage[KubeObject]]:
        yield ListPage((), "1")

    def watch(self, _resource: ApiResource[KubeObject], _version: str) -> Iterator[WatchEvent[KubeObject]]:
        yield WatchEvent("ADDED", ListedObject(self.found.metadata, self.found))


def modules_called(run: Callable[[], object]) -> list[str]:
    """The modules of the kube source whose functions `run` calls, in order, without immediate repeats."""
    found: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        generated = frame.f_code.co_filename == "<string>"  # constructors of dataclasses
        if event == "call" and module.startswith(SOURCE) and not generated and found[-1:] != [module.removeprefix(SOURCE)]:
            found.append(module.removeprefix(SOURCE))

    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def returns(modules: Sequence[str]) -> int:
    """How often the path comes back to a module that it has left."""
    return sum(module in modules[:place] for place, module in enumerate(modules))


def test_a_path_that_comes_back_is_counted() -> None:
    assert returns(["a", "b", "c"]) == 0
    assert returns(["a", "b", "a", "c", "b"]) == 2


def test_a_pod_object_hardly_ever_goes_back_to_a_module_that_it_came_from() -> None:
    """From the watch that shows it until its records are encoded: with two owners to look up, and an OOM kill."""
    scene = KubeScene()
    scene.see("deployments", controller("web"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    found = pod("p", owner("ReplicaSet", "web-1"), status=running(1, "OOMKilled"))
    inbox, watch = Inbox(), next(watch for watch in watches() if watch.kind == "pods")
    reflector = Reflector(OnePod(found), watch, inbox.put)  # type: ignore[arg-type]  # it answers for pods alone
    reflector.step()
    scene.source.handle(inbox.get(Seconds(1.0)))

    def follow() -> None:
        reflector.step()
        scene.source.handle(inbox.get(Seconds(1.0)))

    path = modules_called(follow)
    scene.source.publish_due()
    assert [event.workload.name for event in scene.pods("p")] == ["web"]
    assert len(scene.kills()) == 1
    assert path[0] == "watch.reflector"
    assert {"kube_source", "owners.pod_owners", "owners.topmost_controller", "publish.pod_publisher"} < set(path)
    assert path[-1] == "publish.publisher"
    assert returns(path) <= MOST_RETURNS, path
