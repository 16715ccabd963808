"""Runs `ullage scan`: a table of recommendations with nothing installed, in krr's columns, with a grade; reads only."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from agents.commands.recommend import recommendation_table, scan_sources, scan_table
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.recommend.scan_sources import Scanned
from agents.commands.recommend.scan_table import ScanForm
from agents.processes.signals import stoppable
from agents.settings import setting_texts
from agents.settings.all_settings import Settings
from agents.settings.loading import LoadedSettings
from agents.terminal.output import data, note
from schemas.units import counted_are
from streams.codec.container_requests_reader import RecommendedRequests, containers_of
from streams.errors import BadInput

ScanOrder = Literal["saved", "namespace", "risk"]
GATE = 3
_RISKS = ("low", "unknown", "medium", "high")


@dataclass(frozen=True, slots=True)
class ScanSource:
    """Where usage comes from: a file, Prometheus, or the metrics API, which is asked so many times."""

    file: Path | None = None
    prometheus: bool = False
    samples: int = 1
    until: datetime | None = None
    """Up to when the history of Prometheus is asked for; None is now."""


@dataclass(frozen=True, slots=True)
class ScanFlags:
    """What to show, and how."""

    namespaces: tuple[str, ...] = ()
    selector: str = ""
    form: ScanForm = "table"
    to: Path | None = None
    limit: int | None = None
    order: ScanOrder = "saved"
    fail_on: Literal["high", "medium"] | None = None
    quiet: bool = False


def of_context(loaded: LoadedSettings, context: str) -> Settings:
    """The settings for a context of the kubeconfig, whose name is the cluster's; empty for what the settings name."""
    settings = loaded.settings
    # whoever scans a strange server does not know its jobs, so containers of any job count unless a job is named
    if "prometheus.job" not in loaded.origins:
        settings = settings.model_copy(update={"prometheus": settings.prometheus.model_copy(update={"job": ""})})
    if not context:
        return settings
    # a context may be any text, such as an ARN of EKS, and a cluster's name is a part of keys
    name = re.sub(r"[^a-zA-Z0-9._-]", "-", context).strip("-._")[:63] or "cluster"
    cluster = settings.cluster.model_copy(update={"context": context, "name": name})
    return settings.model_copy(update={"cluster": cluster})


def run(clusters: Sequence[Settings], source: ScanSource, flags: ScanFlags) -> int:
    """Scan each cluster and print one table; 3 when a container is at the risk that `fail_on` names, or a higher one."""
    selected = _selector(flags.selector)
    rows: list[RecommendedContainer] = []
    with stoppable():
        for settings in clusters:
            scanned = _scanned(settings, source)
            decisions = [
                RecommendedRequests.of(decision)
                for key, decision in scanned.decisions.items()
                if setting_texts.is_of_namespaces(flags.namespaces, decision.workload.namespace)
                and (not flags.selector or any(selected(pod.labels) for pod in scanned.pods.get(key, ())))
            ]
            rows += recommendation_table.rows_of(
                decisions, {key: [containers_of(pod) for pod in pods] for key, pods in scanned.pods.items()}, scanned.at
            )
    # over all clusters, so that `--limit` shows the first of all
    rows.sort(key=_order(flags.order))
    _write(rows[: flags.limit], flags, several=len(clusters) > 1)
    if not flags.quiet:
        note(scan_table.summary(rows))
        if runs := recommendation_table.runs_with_names_of_their_own(rows):
            note(runs)
    return _gate(rows, flags)


def _gate(rows: Iterable[RecommendedContainer], flags: ScanFlags) -> int:
    if flags.fail_on is None:
        return 0
    worst = sum(_RISKS.index(row.risk) >= _RISKS.index(flags.fail_on) for row in rows)
    if worst:
        note(f"{counted_are(worst, 'container')} at {flags.fail_on} risk or more (--fail-on)")
    return GATE if worst else 0


def _scanned(settings: Settings, source: ScanSource) -> Scanned:
    """Scan one cluster. Pods come from the cluster that the settings name, if they name one."""
    if source.file is not None:
        return scan_sources.of_trace(settings, source.file)
    if source.prometheus:
        cluster = settings.cluster
        named = any((cluster.kubeconfig, cluster.context, cluster.url, cluster.in_cluster))
        return scan_sources.of_prometheus(settings, from_cluster=named, until=source.until)
    return scan_sources.of_metrics_api(settings, source.samples)


def _selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """`app=cart,tier!=db,team`: equal, not equal, present. Raises BadInput for anything else."""
    tests: list[tuple[str, str, str]] = []
    for part in (part.strip() for part in text.split(",") if text.strip()):
        # `==` is `=`, as kubectl has it
        match = re.fullmatch(r"([\w./-]+)(?:(!?=)=?([\w.-]*))?", part)
        if match is None:
            raise BadInput(f"--selector '{text}': '{part}' is none of app=cart, app!=cart and app")
        tests.append((match[1], match[2] or "", match[3] or ""))

    def holds(labels: Mapping[str, str]) -> bool:
        return all(name in labels if not sign else (labels.get(name) == value) == (sign == "=") for name, sign, value in tests)

    return holds


def _order(order: ScanOrder) -> Callable[[RecommendedContainer], tuple[float | str, ...]]:
    def by_name(row: RecommendedContainer) -> tuple[str, ...]:
        return row.cluster, row.namespace, row.workload, row.container

    match order:
        case "namespace":
            return by_name
        case "risk":
            return lambda row: (-_RISKS.index(row.risk), -row.worth, *by_name(row))
        case "saved":
            return lambda row: (-row.worth, *by_name(row))


def _write(rows: Sequence[RecommendedContainer], flags: ScanFlags, *, several: bool) -> None:
    form: ScanForm = "wide" if flags.to is not None and flags.form == "table" else flags.form  # a file is no terminal
    lines = list(scan_table.lines(form, rows, several=several))
    if flags.to is None:
        for line in lines:
            data(line)
        return
    try:
        flags.to.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{flags.to}' cannot be written: {error.strerror}") from error
