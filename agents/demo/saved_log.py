"""Saves the day's log as a file, with the settings to read it."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from agents.settings.loading import nested
from agents.verify.verifiable_copy import export
from streams.log.file_log import FileLog
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.topics import Topics

_LOG = "log.jsonl"
_SETTINGS = "ullage.yaml"


def save(log: Log, topics: Topics, settings: Mapping[str, object], folder: Path) -> Path:
    """Copy the log and its settings into the folder; returns the settings file."""
    path = folder / _LOG
    path.unlink(missing_ok=True)
    with FileLog.open_or_create(path) as file:
        export(LogContext.of(log, topics), file, stages=stages(Settings()), worker=Settings().worker.name)
    kept = {name: value for name, value in settings.items() if not name.startswith(("log.", "clock."))}
    tree = nested({**kept, "log.kind": "file", "log.path": str(path)})
    config = folder / _SETTINGS
    config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return config
