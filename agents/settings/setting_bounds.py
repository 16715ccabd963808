"""Bounds of settings that their types cannot express: what would stop a process, do harm, or can only be a slip of the pen.

The stages' settings are plain dataclasses, so that the logic stays free of validation; texts are checked here for all groups at
once. This module only gives reasons; loading the settings raises the error.
"""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from agents.logic import stage_rules
from agents.settings.all_settings import Settings
from schemas.bounds import MOST_ENTRIES, MOST_TEXT
from streams.topics import REACH_MS

REACH = REACH_MS / 1000
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?):([0-9]{1,5})")
_PORTS = range(1, 65_536)


def reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """The dotted name of each setting with a value out of bounds, and why."""
    for branch in type(settings).model_fields:
        part = getattr(settings, branch)
        if is_dataclass(part) and not isinstance(part, type):
            for name, why in stage_rules.odd(part):
                yield f"{branch}.{name}", why
    yield from _texts(settings, "")
    yield from _stages(settings)
    if wrong := _broker_fault(settings.log.brokers):
        yield "log.brokers", wrong
    for name, url in _addresses(settings):
        if url is not None and not _is_url(url):
            yield name, "it must be an address such as http://127.0.0.1:8899"
    if settings.worker.checkpoint_least > settings.worker.checkpoint_most:
        yield "worker.checkpoint_least", f"it is above worker.checkpoint_most, {settings.worker.checkpoint_most:g}"


def _addresses(settings: Settings) -> tuple[tuple[str, str | None], ...]:
    return (
        ("cluster.url", settings.cluster.url),
        ("prometheus.url", settings.prometheus.url),
        ("aws.endpoint", settings.aws.endpoint),
    )


def _stages(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.replicas.coverage > 1:
        yield "replicas.coverage", "it is a share of the time, at most 1"
    for name, expires in (("updates.expires", settings.updates.expires), ("replicas.expires", settings.replicas.expires)):
        if expires > REACH:
            yield name, f"consumers remember what they did for {REACH:g} s, and a plan must not outlive that"


def _texts(part: object, before: str) -> Iterator[tuple[str, str]]:
    """Texts and lists that are too long, or hold what no name, path or address holds."""
    names = type(part).model_fields if isinstance(part, BaseModel) else getattr(type(part), "__dataclass_fields__", ())
    for name in names:
        value = getattr(part, name)
        if isinstance(value, BaseModel) or is_dataclass(value):
            yield from _texts(value, f"{before}{name}.")
        elif isinstance(value, SecretStr):
            if len(value.get_secret_value()) > MOST_TEXT:
                yield before + name, f"more than {MOST_TEXT} characters are no secret of a server"
        elif isinstance(value, str | Path) and (wrong := _text_fault(str(value))):
            yield before + name, wrong
        elif isinstance(value, tuple | list):
            if len(value) > MOST_ENTRIES:
                yield before + name, f"it has {len(value)} entries; at most {MOST_ENTRIES} make sense"
            yield from ((before + name, wrong) for entry in value if isinstance(entry, str) and (wrong := _text_fault(entry)))


def _text_fault(text: str) -> str:
    if len(text) > MOST_TEXT:
        return f"it has {len(text)} characters; at most {MOST_TEXT} make sense"
    return "" if text.isprintable() else "it holds a character that cannot be printed"


def _broker_fault(brokers: str) -> str:
    """Why these are no bootstrap servers; empty when they are."""
    for entry in brokers.split(","):
        match = _BROKER.fullmatch(entry.strip())
        if match is None or int(match.group(3)) not in _PORTS:
            return f"'{entry.strip()}' is no HOST:PORT, as in 127.0.0.1:9092 or kafka-0:9092,kafka-1:9092"
    return ""


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # `port` itself raises ValueError for what is none
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
