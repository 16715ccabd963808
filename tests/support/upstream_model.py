"""Upstream's cluster model over our usage and pods: what the operations of its vectors mean here."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from agents.logic.governing_policies import Policies
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.usage_ingest import UsageIngest, usage_settings
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import PodName, Workload

W = "w"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MARKS = ("window_end", "peak", "killed", "last_memory", "last_cpu")


def grown(intake: UsageIngest, growth: float) -> ContainerUsage:
    """The usage of an intake, with buckets that grow by another share; we never change it, but upstream's vectors do."""
    usage = intake.usage = ContainerUsage(replace(usage_settings(intake.settings), growth=growth), intake._aggregate_of)
    usage.made = intake._made
    return usage


class OneName(Workload):
    """A workload whose key is one letter, so that upstream's keys can be compared."""

    @property
    def key(self) -> str:
        return W


OWNER = OneName("c", "n", "k", W)


def settings(config: dict[str, Any], **more: Any) -> VerticalSettings:
    """Upstream's aggregation settings; what upstream does not do is off."""
    return replace(
        VerticalSettings(),
        cpu_half_life=config["cpu_half_life_s"],
        memory_half_life=config["memory_half_life_s"],
        memory_window=config["memory_aggregation_interval_s"],
        memory_windows=config["memory_aggregation_interval_count"],
        oom_ratio=config["oom_bump_up_ratio"],
        oom_minimum=config["oom_min_bump_up_bytes"],
        unknown_pods=False,
        zero_is_absent=False,
        recommend_unseen=True,
        **more,
    )


class Model:
    """Pods, samples and OOM kills of one workload."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.intake = UsageIngest(settings(config), Policies())
        self.usage = grown(self.intake, config["histogram_bucket_size_growth"])

    def do(self, op: list[Any]) -> Any:
        """Carry out one operation; what upstream answers."""
        kind, name, *rest = op
        if kind == "pod":
            self.pod(name, *rest)
        elif kind == "delete_pod":
            self.intake.gone(PodDeleted(EPOCH, OWNER, PodName("n", name, name)), ())
        else:
            return self.sample(kind, name, *rest)
        return None

    def pod(self, name: str, labels: str, containers: list[str]) -> None:
        """A pod was made or labelled anew."""
        known = dict(part.split("=", 1) for part in labels.split(",") if part)
        seen = tuple(ContainerSeen(container) for container in containers)
        self.intake.pod(PodChanged(EPOCH, OWNER, PodName("n", name, name), PodPhase.RUNNING, EPOCH, seen, labels=known))

    def sample(self, kind: str, pod: str, container: str, at: float, amount: float) -> Any:
        """One sample of one resource; upstream's error, and the container's marks."""
        key = (W, pod, container)
        before = self.marks(key)
        if before is None:
            return ["no_such_container", None]
        if kind == "oom":
            request = int(amount)
            when = EPOCH + timedelta(seconds=at)
            counted = self.intake.kill(ContainerOOMKilled(when, OWNER, PodName("n", pod, pod), container, 1, request, None))  # type: ignore[arg-type]  # units
            return ["" if counted else "oom_too_old", self.marks(key)]
        cores = [amount / 1000 if kind == "cpu" else np.nan]
        memory = [amount if kind == "memory" else np.nan]
        self.usage.scrape(MetricsScraped(EPOCH, "c", (W,), (pod,), (container,), cores, memory), float(at), offset=0)  # type: ignore[arg-type]  # units
        late = amount < 0 or (at <= before[4] if kind == "cpu" else at < before[3])
        assert not (late and self.marks(key) != before)
        return ["discarded" if late else "", self.marks(key)]

    def marks(self, key: tuple[str, str, str]) -> list[float] | None:
        """The marks of a container; None if it is not known."""
        containers = self.usage.containers
        row = containers.find(key)
        return None if row is None else [float(containers.floats(c)[row]) for c in MARKS]
