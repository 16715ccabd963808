"""The end of the demo: the day beside the same day without Ullage, why one decision was taken, and what to try next."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.demo import event_narration
from agents.demo.day_state import DayState
from schemas.decisions.recommendations import DeliveredRisk
from schemas.outcomes import Action

ULLAGE = "Ullage"
UPSTREAM = "upstream's rules"
ADAPTIVE = "Ullage, adaptive"
_DEEPEST = 40
_HOW_TO_READ = (
    "Read it from the top: what was decided, the numbers behind it (·), and below, each with its place in the log "
    "[topic:partition:offset], the records that these numbers came from."
)
_TREE = re.compile(r"[│├└─ ]*(· )?")


def compared(console: Console, untouched: DayState, acted_on: Mapping[str, DayState]) -> None:
    """Print the day without an autoscaler beside those that something acted on, and a remark where its numbers may surprise."""
    table = Table(title="the same day, same seed, same load", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("no autoscaler", justify="right")
    for name in acted_on:
        table.add_column(name, justify="right", style="bold" if name == ULLAGE else "")
    for row in rows(untouched, list(acted_on.values())):
        table.add_row(*row)
    console.print(table)
    for name, day in {"no autoscaler": untouched, **acted_on}.items():
        remark = event_narration.kills_and_restarts(day.ooms, day.restarts)
        if remark:
            console.print(Text(f"  {name}: {remark}", style="dim"), soft_wrap=not console.is_terminal)


def rows(untouched: DayState, acted_on: Sequence[DayState]) -> list[tuple[str, ...]]:
    """Each row's name and its value on each day, the untouched one first."""
    days = (untouched, *acted_on)
    totals = [day.curve.total() for day in days]
    last = [(averages := day.curve.averages()) and averages[-1] for day in days]
    return [
        ("CPU requested and not used (slack)", *(f"{total.cpu.slack:.0%}" for total in totals)),
        ("memory requested and not used", *(f"{total.memory.slack:.0%}" for total in totals)),
        ("cores requested at the end", *(f"{end.cpu.requested:.1f}" if end else "-" for end in last)),
        ("memory requested at the end", *(event_narration.memory(end.memory.requested) if end else "-" for end in last)),
        *_nodes(days),
        *_replicas(untouched, acted_on),
        ("containers OOM-killed", *(str(day.ooms) for day in days)),
        *promises(days),
        ("container restarts", *(str(day.restarts) for day in days)),
        *(
            (name, "-", *(str(day.done[action]) for day in acted_on))
            for name, action in (
                ("pods resized in place", Action.RESIZE),
                ("pods evicted", Action.EVICT),
                ("new pods given other requests", Action.PATCH),
            )
        ),
        ("changes refused by a guard", "-", *(str(day.decided["UpdateRefused"]) for day in acted_on)),
    ]


def promises(days: Sequence[DayState]) -> list[tuple[str, ...]]:
    """Where `adaptive` decides: time short of CPU (mean, and the worst container) and OOM kills, each with its promise."""
    risks = [day.risks() for day in days]
    if not any(risks):
        return []
    promised = next(risk.cpu_promised for of_day in risks for risk in of_day)

    def short(risks_of_day: Sequence[DeliveredRisk]) -> str:
        shares = [risk.cpu_delivered for risk in risks_of_day]
        return f"{sum(shares) / len(shares):.1%}, worst {max(shares):.1%}" if shares else "-"

    def kills(risks_of_day: Sequence[DeliveredRisk]) -> str:
        allowed = round(sum(risk.kills_allowed for risk in risks_of_day), 1)
        return f"{sum(risk.kills for risk in risks_of_day):g} of {allowed:g}" if risks_of_day else "-"

    return [
        (f"time short of CPU where adaptive decides, at most {promised:.0%} promised", *map(short, risks)),
        ("OOM kills there, of those promised at most", *map(kills, risks)),
    ]


def _nodes(days: Sequence[DayState]) -> list[tuple[str, ...]]:
    """Node-hours and nodes; without an autoscaler the groups have a fixed size for the busiest hour."""
    if not all(day.nodes for day in days):
        return []
    return [
        ("node-hours", *(f"{day.nodes.hours(day.at):.0f}" for day in days)),
        ("nodes at the end", *(str(day.nodes.count(day.at)) for day in days)),
    ]


def _replicas(untouched: DayState, acted_on: Sequence[DayState]) -> list[tuple[str, ...]]:
    """Replica-hours; without an autoscaler a workload has a fixed number of pods for its busiest hour."""
    rows: list[tuple[str, ...]] = []
    for key in dict.fromkeys(key for day in acted_on for key in day.replicas.workloads):
        fixed = next((row.pods for row in untouched.rows() if row.workload.key == key), 0) * untouched.curve.hours
        hours = (day.replicas.pods(key) * day.curve.hours for day in acted_on)
        rows.append((f"replica-hours of {key.rpartition('/')[2]}", f"{fixed:.0f}", *(f"{hour:.0f}" for hour in hours)))
    return rows


def chosen(state: DayState) -> str | None:
    """The decision to explain."""
    # people ask about kills and evictions; a resize is what is always there
    return state.after_kill or state.explained.get(Action.EVICT) or state.explained.get(Action.RESIZE)


def explained(console: Console, decision: str, lines: Iterable[str]) -> None:
    """Print the explanation of one decision. On a terminal long lines wrap; elsewhere they stay one line."""
    console.print(Text(f"\nwhy {decision}?", style="bold"), soft_wrap=not console.is_terminal)
    console.print(Text(_HOW_TO_READ, style="dim"), soft_wrap=not console.is_terminal)
    shown = list(lines)
    for line in shown[:_DEEPEST]:
        for part in hanging(line, console.width) if console.is_terminal else [line]:
            console.print(Text(part), soft_wrap=True)
    if len(shown) > _DEEPEST:
        console.print(Text(f"… and {len(shown) - _DEEPEST} lines more"))


def hanging(line: str, width: int) -> list[str]:
    """Wrap a line of the tree at this width; the tree goes on at the left of the wrapped lines."""
    head = _TREE.match(line)
    tree = head[0] if head else ""
    below = tree.replace("├─", "│ ").replace("└─", "  ").replace("·", " ") + "  "
    words = line[len(tree) :]
    return textwrap.wrap(words, max(width, 40), initial_indent=tree, subsequent_indent=below, break_on_hyphens=False) or [line]


def next_steps(console: Console, config: str, decision: str | None, trace: Path | None = None) -> None:
    """Print commands that work on the log of the day."""
    console.print(Text("\nwhat to try next (the day's whole log was kept)", style="bold"))
    steps = [("recompute every decision from the log and compare byte for byte", f"replay --verify --config {config}")]
    if decision is not None:
        steps.append(("every number behind that decision", f"why {decision} -v --config {config}"))
    if trace is None:
        steps.append(("what was left alone, and why", f"tap pod-updates --type UpdateRefused --limit 3 --config {config}"))
        steps.append(("another day; --trace FILE plays a recorded one", "demo --seed 2"))
    else:
        steps.append(("recommendations with the numbers they rest on", f"tap recommendations --limit 3 --config {config}"))
        steps.append(("a score card; try other settings", f"backtest {trace} --set vertical.margin=0.3"))
    for meaning, command in steps:
        console.print(Text(f"  # {meaning}", style="dim"))
        console.print(Text(f"  {program()} {command}", style="cyan"), soft_wrap=True)


def program() -> str:
    """How to call `ullage`: by its path if it is not on PATH."""
    ours = Path(sys.executable).with_name("ullage")
    if shutil.which("ullage") is not None or not ours.exists():
        return "ullage"
    return str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours)
