"""A tiny stage for tests of the host: sums, a mean over rows and a budget, so that a wrong order or a lost record shows."""

import json
import math
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from agents.engine.stage import Stage
from agents.engine.turn import Decided, Turn
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.ids import DecisionId
from schemas.names import Amounts, Place, Workload
from schemas.units import Bytes, Cores

READS = ("rules", "oom-events", "pod-metrics")


class Sums:
    """Rows by workload, in chunks by the name's hash; plain values in a chunk of their own."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.rows: dict[str, list[float]] = {}
        self.plain: dict[str, float] = {"mean": 0.0, "budget": 5.0, "policies": 0.0}
        self.dirty: set[str] = set()

    def step(self, turn: Turn) -> Sequence[Decided]:
        if Path(os.environ.get("SUMS_BREAK", "/nowhere")).exists():
            raise AssertionError("this stage was told to break")
        self.plain["policies"] += len(turn.of("rules"))
        self.plain["budget"] = min(5.0, self.plain["budget"] + 0.5)
        self.dirty.add("plain")
        decided = []
        for r in turn.of("oom-events"):
            self._add(r.event.workload.key, 0.0, 1.0)
            decided.append(self._decide(turn, r.event.workload.key, f"oom{r.place.offset}", r.place))
        for r in turn.of("pod-metrics"):
            for key, cores in zip(r.event.workloads, r.event.cores, strict=True):
                if not math.isnan(cores):
                    self._add(key, float(cores), 0.0)
        ripe = sorted(key for key, row in self.rows.items() if row[0] > 100.0 + self.plain["mean"])
        for key in ripe[: int(self.plain["budget"])]:
            self.plain["budget"] -= 1.0
            decided.append(self._decide(turn, key, "ripe", None))
            self._add(key, -self.rows[key][0] / 2, 0.0)
        return decided

    def _add(self, key: str, cores: float, ooms: float) -> None:
        row = self.rows.setdefault(key, [0.0, 0.0])
        row[0] += cores
        row[1] += ooms
        self.plain["mean"] = 0.9 * self.plain["mean"] + 0.1 * row[0]
        self.dirty.add(_chunk(key))

    def _decide(self, turn: Turn, key: str, what: str, place: Place | None) -> Decided:
        row = self.rows[key]
        amounts = Amounts(Cores(row[0]), Bytes(int(row[1])))
        name = str(DecisionId("sums", self.partition, turn.number, what, key))
        container = ContainerRecommendation("c", amounts, amounts, amounts, amounts)
        event = RequestsRecommended(name, turn.at, Workload.parse(key), (container,), dict(self.plain))
        return Decided("recommendations", key, event, (place,) if place else ())

    def chunks(self) -> Iterable[str]:
        return {"plain", *map(_chunk, self.rows)}

    def take_dirty(self) -> set[str]:
        dirty, self.dirty = self.dirty, set()
        return dirty

    def dump(self, chunk: str) -> bytes:
        if chunk == "plain":
            return json.dumps(self.plain).encode()
        return json.dumps({k: v for k, v in sorted(self.rows.items()) if _chunk(k) == chunk}).encode()

    def load(self, chunk: str, data: bytes) -> None:
        if chunk == "plain":
            self.plain = json.loads(data)
        else:
            self.rows.update(json.loads(data))


def _chunk(key: str) -> str:
    return f"rows/{zlib.crc32(key.encode()) % 16}"


STAGE = Stage("sums", READS, ("recommendations",), Sums)
