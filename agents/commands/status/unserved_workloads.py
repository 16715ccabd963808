"""Workloads that the updater leaves alone until somebody helps, and those that are held by what caps their targets.

The first have a row each: their new pods do not come, or a loop of kills has no end. The others are counted in one row.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from agents.commands.recommend import target_caps
from agents.commands.recommend.target_caps import Refusals
from agents.commands.status.status_rows import StatusRow
from agents.logic.updates.lasting_guards import STOPPING
from schemas.decisions.pod_updates import UpdateRefused
from streams.log_context import LogContext

SHOWN = 10
"""Workloads that have a line of their own."""


def rows(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """A row for each workload that is left alone, one for all above a bound, and one for those held by caps.

    Raises LogUnavailable.
    """
    refusals = target_caps.refusals(context, now)
    found: dict[str, UpdateRefused] = {}
    for (key, guard), event in sorted(refusals.items()):
        if guard in STOPPING and (key not in found or found[key].at <= event.at):
            found[key] = event
    for key in sorted(found)[:SHOWN]:
        refused = found[key]
        name = f"{refused.workload.namespace}/{refused.workload.name}"
        says = f"since {refused.at:%H:%M:%S} or before: {refused.reason}; `ullage why-not {name}` says more"
        yield StatusRow("workload", key, "left alone", says, warns=True)
    if len(found) > SHOWN:
        says = f"{len(found) - SHOWN} more: `ullage tap pod-updates --type UpdateRefused` shows them"
        yield StatusRow("workload", "all", "left alone", says, warns=True)
    yield from _held(refusals)


def _held(refusals: Refusals) -> Iterator[StatusRow]:
    """How many workloads do not get what is recommended for them, by what caps it."""
    caps = {
        key: {word for event in events for word in target_caps.words(event)}
        for key, events in target_caps.of_guards(refusals).items()
    }
    if caps:
        counts = Counter(word for words in caps.values() for word in words)
        listed = ", ".join(f"{count} by {word}" for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        are = "1 workload is" if len(caps) == 1 else f"{len(caps)} workloads are"
        says = f"{are} kept from the target: {listed}; `ullage recommendations` says what to change"
        yield StatusRow("workload", "capped", "held", says, warns=True)
