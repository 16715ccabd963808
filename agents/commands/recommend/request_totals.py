"""What becomes of all requests together if targets are taken, in words. What grows is negative, as in the rows' `saved`."""

import re
from collections.abc import Iterable

from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.why import event_descriptions

_MANY_CORES = 10.0
_NOTHING = re.compile(r"<1m|0m|0 |[\d.]+ (B|KiB)")


def in_words(rows: Iterable[RecommendedContainer]) -> str:
    """As in `2294m CPU of requests would be freed and 605.6 MiB memory added`, and how many containers these sums leave out."""
    cpu, memory, left_out = 0.0, 0, 0
    for row in rows:
        cpu += row.saved.cpu or 0.0
        memory += row.saved.memory or 0
        left_out += (row.saved.cpu is None and row.target.cpu is not None) or (
            row.saved.memory is None and row.target.memory is not None
        )
    whole = freed_or_added(cpu, memory)
    if not left_out:
        return whole
    which = "1 container whose requests are" if left_out == 1 else f"{left_out} containers whose requests are"
    return f"{whole}, without {which} not set or not known"


def freed_or_added(cpu: float, memory: float) -> str:
    """As `in_words`, of two sums."""
    both = zip((cpu, memory), _texts(abs(cpu), abs(memory)), strict=True)
    changes = [(text, "added" if amount < 0 else "freed") for amount, text in both if not _NOTHING.match(text)]
    if not changes:
        return "no requests would be freed"
    if len(changes) == 1 or changes[0][1] == changes[1][1]:
        return f"{' and '.join(text for text, _ in changes)} of requests would be {changes[0][1]}"
    (first, word), (second, other) = changes
    return f"{first} of requests would be {word} and {second} {other}"


def amount_texts(cpu: float, memory: float) -> list[str]:
    """As in `2294m CPU` and `605.6 MiB memory`, without what would be shown as nothing."""
    return [text for text in _texts(cpu, memory) if not _NOTHING.match(text)]


def _texts(cpu: float, memory: float) -> tuple[str, str]:
    cpu_text, memory_text = amount_text((cpu, memory)).rsplit(", ", 1)
    return cpu_text, f"{memory_text} memory"


def amount_text(amount: tuple[float, float]) -> str:
    """Cores and bytes for people, with a sign where they are negative."""
    cpu, memory = amount
    cores = (
        f"{cpu:,.1f} cores"
        if abs(cpu) >= _MANY_CORES
        else f"{'-' if cpu < 0 else ''}{event_descriptions.amount(cpu=abs(cpu))} CPU"
    )
    return f"{cores}, {'-' if memory < 0 else ''}{event_descriptions.amount(memory=abs(memory))}"


def containers(count: int) -> str:
    """How many there are, as in: 1 container."""
    return f"{count} {'container' if count == 1 else 'containers'}"
