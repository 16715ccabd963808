"""How `ullage checkpoints` works: histories of VPAs as lines, as a file, or as objects of the cluster that the settings name."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from agents.inspect.changelog_checkpoints import checkpoints
from agents.processes.output import data, note
from agents.processes.signals import stoppable
from agents.settings import cluster_factory, log_factory
from agents.settings.tree import Settings
from schemas.facts.vpa_checkpoints import CheckpointSeen
from streams.clients.kube.api import Api
from streams.clients.kube.vpa_checkpoints import as_list, object_name, put
from streams.consumers.executing.rate_limit import Pace
from streams.errors import BadInput, EdgeError, Unreachable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def show(settings: Settings, vpa: str) -> None:
    """One line each."""
    for kept in _kept(settings, vpa):
        span = f"{_day(kept.first)} to {_day(kept.last)}" if kept.count else "no CPU sample"
        weights = f"weight cpu {kept.cpu.total:.4g} memory {kept.memory.total:.4g}"
        data(f"{kept.workload.namespace}/{kept.vpa}  {kept.container}  {kept.count} samples  {span}  {weights}")


def export(settings: Settings, to: Path | None, vpa: str) -> int:
    """Write them; 0, or 1 when the cluster did not take some."""
    kept = list(_kept(settings, vpa))
    if to is not None:
        _write(to, kept)
        note(f"{len(kept)} checkpoints written to {to}")
        return 0
    api = Api(cluster_factory.connection(settings.cluster))
    pace = Pace(settings.status.rate, settings.status.burst)
    refused = sum(not _put(api, pace, each) for each in kept)
    note(f"{len(kept) - refused} of {len(kept)} checkpoints are in cluster '{settings.cluster.name}'")
    return int(refused > 0)


def _kept(settings: Settings, vpa: str) -> Iterator[CheckpointSeen]:
    """The checkpoints of this cluster's VPAs."""
    with stoppable(), log_factory.log(settings) as log:
        for kept in checkpoints(log, settings):
            if kept.workload.cluster == settings.cluster.name and fnmatchcase(f"{kept.workload.namespace}/{kept.vpa}", vpa):
                yield kept


def _put(api: Api, pace: Pace, kept: CheckpointSeen) -> bool:
    """Whether the cluster took it. Raises Unreachable, as it would not take the others either."""
    try:
        pace.wait()
        put(api, kept)
    except Unreachable:
        raise
    except EdgeError as error:
        note(f"{kept.workload.namespace}/{object_name(kept)}: {error}")
        return False
    return True


def _write(to: Path, kept: list[CheckpointSeen]) -> None:
    body = as_list(kept)
    text = json.dumps(body, indent=2) + "\n" if to.suffix == ".json" else yaml.safe_dump(body, sort_keys=False)
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{to}' cannot be written: {error.strerror}") from error


def _day(seconds: float) -> str:
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M}"
