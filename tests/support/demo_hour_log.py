"""An hour in the demo's shop, acted on by Ullage and kept as a log file: what commands that look back are tried on."""

from datetime import timedelta
from pathlib import Path

from agents.demo import day_in_memory
from agents.demo.demo_settings import Day
from agents.settings import loading


def keep(folder: Path, hours: float = 1.0) -> Path:
    """The log file; beside it stands `ullage.yaml`, the settings of that hour."""
    day = Day(seed=1, seconds=0.001, length=timedelta(hours=hours), pause=False)
    log = day_in_memory.new_log(day)
    settings = loading.load(flags=day.in_one_process()).settings
    for _ in day_in_memory.played(day, settings, log):
        pass
    return day_in_memory.save(log, day.topics, day.settings(), folder).with_name("log.jsonl")
