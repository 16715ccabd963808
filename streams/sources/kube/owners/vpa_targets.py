"""All VPAs with their targets: told when either changes, and seeded with the history that checkpoints hold, once each.

A VPA waits while its target is being listed or asked for. One that is new, or can be served for the first time, asks for the
checkpoints of its namespace; the first time all namespaces are asked for at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from schemas.policies.vpa import VpaChanged
from streams.clients.kube.watched_objects import CheckpointObject, VpaObject
from streams.sources.kube.owners.controllers import Key
from streams.sources.kube.owners.owner_chain import Owners
from streams.sources.kube.owners.target_check import judge
from streams.sources.kube.publish import vpa_histories, vpas
from streams.sources.kube.publish.published import Told
from streams.sources.kube.publish.publisher import Pen

EVERYWHERE = ""


class Aims:
    """`ask` is called with a namespace whose checkpoints are wanted; they come by `seed`. `now` gives the time."""

    def __init__(self, pen: Pen, owners: Owners, now: Callable[[], datetime], ask: Callable[[str], None]) -> None:
        self._pen, self._owners, self._now, self._ask = pen, owners, now, ask
        self._told: Told[VpaChanged] = Told(pen.policy, lambda said: pen.policy(vpas.removed(said, now())))
        self._here: dict[str, VpaChanged] = {}
        self._visited: dict[str, tuple[Key, ...]] = {}
        self._under: dict[Key, dict[str, None]] = {}
        self._waiting: set[str] = set()
        self._served: dict[str, VpaChanged] = {}
        self._seeded: set[str] = set()
        self._settled = self._begun = False

    def remember(self, said: Mapping[str, VpaChanged]) -> None:
        """What the log holds. Whether it holds the checkpoints is not known, and telling them again does no harm."""
        self._told.remember(said)
        self._seeded.clear()
        if self._begun:
            self._ask(EVERYWHERE)

    def put(self, found: VpaObject) -> None:
        """A VPA is there, new or changed."""
        vpa = vpas.changed(found, self._pen.cluster, self._now())
        self._here[vpa.key] = vpa
        self._judge(vpa.key)

    def drop(self, namespace: str, name: str) -> None:
        """It is gone."""
        key = f"{self._pen.cluster}/{namespace}/{name}"
        self._here.pop(key, None)
        self._served.pop(key, None)
        self._waiting.discard(key)
        self._index(key, ())
        self._told.drop(key)
        self._begin()

    def settle(self) -> None:
        """All VPAs that are there were put."""
        self._told.settle(self._waiting)
        self._settled = True
        self._begin()

    def under(self, keys: Iterable[Key]) -> None:
        """Something is new about these controllers."""
        for key in keys:
            for name in list(self._under.get(key, ())):
                self._judge(name)
        self._begin()

    def look_again(self) -> None:
        """For VPAs that wait: a list is complete, or cannot be had."""
        for name in sorted(self._here):
            if name in self._waiting or any(key.well_known for key in self._visited.get(name, ())[-1:]):
                self._judge(name)
        self._begin()

    def refresh(self) -> None:
        """Scales are looked at from time to time: nobody tells when one changes."""
        for name, visited in list(self._visited.items()):
            if not all(key.well_known for key in visited):
                self._judge(name)

    def seed(self, namespace: str, found: Sequence[CheckpointObject]) -> None:
        """These are the checkpoints of a namespace, or of all."""
        by_vpa: dict[str, list[CheckpointObject]] = {}
        for each in found:
            by_vpa.setdefault(f"{self._pen.cluster}/{each.metadata.namespace}/{each.spec.vpa_object_name}", []).append(each)
        for key, vpa in sorted(self._served.items()):
            if vpa.uid not in self._seeded and namespace in (EVERYWHERE, vpa.namespace):
                self._seeded.add(vpa.uid)
                for each in sorted(by_vpa.get(key, ()), key=lambda each: each.spec.container_name):
                    self._pen.seed(vpa_histories.seen(each, vpa, self._now()))

    def _begin(self) -> None:
        """As soon as all that is there is told, look for checkpoints, for all at once."""
        if self._settled and not self._waiting and not self._begun:
            self._begun = True
            self._ask(EVERYWHERE)

    def _judge(self, name: str) -> None:
        judged = judge(self._here[name], self._owners)
        self._index(name, judged.visited)
        if judged.vpa is None:
            self._waiting.add(name)
            return
        self._waiting.discard(name)
        self._told.put(name, replace(judged.vpa, at=self._now()))
        self._serve(name, judged.vpa)

    def _serve(self, name: str, vpa: VpaChanged) -> None:
        if vpa.unsupported:
            self._served.pop(name, None)
            return
        news = name not in self._served
        self._served[name] = vpa
        if news and self._begun and vpa.uid not in self._seeded:
            self._ask(vpa.namespace)

    def _index(self, name: str, now: tuple[Key, ...]) -> None:
        before = self._visited.pop(name, ())
        if now:
            self._visited[name] = now
        for key in before:
            self._under.get(key, {}).pop(name, None)
            if not self._under.get(key, True):
                del self._under[key]
        for key in now:
            self._under.setdefault(key, {})[name] = None
