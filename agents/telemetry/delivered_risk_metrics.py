"""What `adaptive` promised and delivered, as gauges for each container that it decides for.

They are read from the decisions that a turn made. A container that nothing was decided about for a day is gone. A tenant may
ask for `adaptive` on as many containers as it likes, so only the first of each namespace are shown, and of all.
"""

from collections import Counter as Count
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from agents.telemetry.readiness import StagePartition
from schemas.decisions.recommendations import delivered_risks
from streams import typed_json
from streams.codec import event_codec
from streams.log.log_port import NewRecord

_DAY_MS = 86_400_000
_MARK = b'"policy_grounds"'
"""What a decision of a policy as code has; the others are not decoded."""
_LABELS = ("workload", "container", "side")
_SIDES = ("promised", "delivered")
_MOST, _MOST_OF_NAMESPACE = 5_000, 500
"""Containers that are shown; each has four series."""


class _Decided(msgspec.Struct):
    because: dict[str, object] = {}


@dataclass(slots=True)
class _Told:
    """A container's newest decision: whose it was, and its turn."""

    task: StagePartition
    turn: int


class DeliveredRiskMetrics:
    """The gauges of one worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Registers both gauges."""
        self._short = Gauge(
            "ullage_adaptive_cpu_short_ratio", "Share of time with more CPU used than requested", _LABELS, registry=registry
        )
        self._kills = Gauge(
            "ullage_adaptive_oom_kills",
            "OOM kills, and as many as the built-in would have had and may be",
            _LABELS,
            registry=registry,
        )
        self._told: dict[tuple[str, str], _Told] = {}
        self._of: Count[str] = Count()
        """How many containers are shown, by namespace."""
        self._tidied = 0

    def decided(self, task: StagePartition, turn: int, decisions: Iterable[NewRecord]) -> None:
        """A turn of the recommender made these decisions. `turn` is its time in ms. The copy by cluster says nothing more."""
        for record in decisions:
            workload = (record.key or b"").decode()
            ident = event_codec.header(record, "ce_id") or ""
            if _MARK not in (record.value or b"") or not ident.endswith(f"/requests/{workload}"):
                continue
            for risk in delivered_risks(typed_json.decode(record.value or b"{}", _Decided).because):
                if not self._is_shown(workload, risk.container):
                    continue
                self._told[workload, risk.container] = _Told(task, turn)
                sides = ((risk.cpu_promised, risk.kills_allowed), (risk.cpu_delivered, risk.kills))
                for side, (short, kills) in zip(_SIDES, sides, strict=True):
                    self._short.labels(workload, risk.container, side).set(short)
                    self._kills.labels(workload, risk.container, side).set(kills)
        if turn - self._tidied >= _DAY_MS // 24:
            self._tidied = turn
            self._remove(name for name, told in self._told.items() if told.task == task and turn - told.turn > _DAY_MS)

    def forget(self, task: StagePartition) -> None:
        """The worker does not own this partition any more."""
        self._remove(name for name, told in self._told.items() if told.task == task)

    def _is_shown(self, workload: str, container: str) -> bool:
        """A container for which there is no room may be shown later, when others have gone."""
        if (workload, container) in self._told:
            return True
        namespace = _namespace(workload)
        room = len(self._told) < _MOST and self._of[namespace] < _MOST_OF_NAMESPACE
        self._of[namespace] += room
        return room

    def _remove(self, names: Iterable[tuple[str, str]]) -> None:
        for name in list(names):
            del self._told[name]
            self._of[_namespace(name[0])] -= 1
            for side in _SIDES:
                self._short.remove(*name, side)
                self._kills.remove(*name, side)


def _namespace(workload: str) -> str:
    """Of a workload's key, with its cluster."""
    return workload.rsplit("/", 2)[0]
