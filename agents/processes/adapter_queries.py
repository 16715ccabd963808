"""The queries that a cluster's configuration of prometheus-adapter gives, from a file that is read again when it changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from agents.logic.replicas import adapter_rules
from agents.logic.replicas.adapter_rules import MetricRule
from agents.logic.replicas.ehpa_manifest import ehpa_of
from agents.logic.replicas.metric_queries import escaped
from schemas.policies.ehpa import EhpaChanged
from streams import yaml_reader
from streams.errors import BadInput

_log = structlog.get_logger(__name__)


class AdapterQueries:
    """The queries of EHPAs. Raises BadInput at the start for an unusable file; later the last good one counts."""

    def __init__(self, path: Path | None, labels: Sequence[str]) -> None:
        self._path = path
        self._extra = tuple(f'{key}="{escaped(value)}"' for key, _, value in (label.partition("=") for label in labels))
        self._read_at, self._rules = self._load() if path is not None else (0, ())

    def __call__(self, ehpa: EhpaChanged) -> Mapping[str, str]:
        """The queries that the rules give for its metrics, by identifier."""
        self._follow()
        if not self._rules:
            return {}
        try:
            read = ehpa_of(ehpa)
        except ValueError:  # it is published as unsupported
            return {}
        queries = {metric.identifier: adapter_rules.query(read, metric, self._rules, self._extra) for metric in read.metrics}
        return {identifier: query for identifier, query in queries.items() if query}

    def _follow(self) -> None:
        if self._path is None:
            return
        try:
            if self._path.stat().st_mtime_ns != self._read_at:
                self._read_at, self._rules = self._load()
        except (OSError, BadInput) as error:
            _log.warning("the rules of prometheus-adapter are as they were", reason=str(error))
            # one warning for each bad version of the file, and not one for each EHPA
            self._read_at = self._path.stat().st_mtime_ns if self._path.exists() else self._read_at

    def _load(self) -> tuple[int, tuple[MetricRule, ...]]:
        path = self._path
        if path is None:
            return 0, ()
        try:
            config = yaml_reader.read_file(path, f"cluster.adapter_rules '{path}'")
            return path.stat().st_mtime_ns, adapter_rules.read(config if isinstance(config, Mapping) else {})
        except (OSError, ValueError) as error:
            raise BadInput(f"cluster.adapter_rules '{path}': {error}") from error
