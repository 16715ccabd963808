"""The end of the demo: the day with Ullage beside the same day without, why one decision was taken, and what to try next."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.demo import event_narration
from agents.demo.day_state import DayState
from schemas.outcomes import Action

_DEEPEST = 40
_HOW_TO_READ = (
    "Read it from the top: what was decided, the numbers behind it (·), and below, each with its place in the log "
    "[topic:partition:offset], the records that these numbers came from."
)
_TREE = re.compile(r"[│├└─ ]*(· )?")


def compared(console: Console, without: DayState, having: DayState) -> None:
    """Print the two days as a table, and a remark where its numbers may surprise."""
    table = Table(title="the same day, same seed, same load", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("without Ullage", justify="right")
    table.add_column("with Ullage", justify="right", style="bold")
    for row in rows(without, having):
        table.add_row(*row)
    console.print(table)
    for name, day in (("without", without), ("with", having)):
        remark = event_narration.kills_and_restarts(day.ooms, day.restarts)
        if remark:
            console.print(Text(f"  {name} Ullage, {remark}", style="dim"), soft_wrap=not console.is_terminal)


def rows(without: DayState, having: DayState) -> Sequence[tuple[str, str, str]]:
    """Name, without, with."""
    days = (without.curve.total(), having.curve.total())
    last = (without.curve.averages()[-1:], having.curve.averages()[-1:])
    return [
        ("CPU requested and not used (slack)", *(f"{day.cpu_slack:.0%}" for day in days)),  # type: ignore[list-item]  # two each
        ("memory requested and not used", *(f"{day.memory_slack:.0%}" for day in days)),  # type: ignore[list-item]
        ("cores requested at the end", *(f"{m[0].cpu_requested:.1f}" if m else "-" for m in last)),  # type: ignore[list-item]
        ("memory requested at the end", *(event_narration.memory(m[0].memory_requested) if m else "-" for m in last)),  # type: ignore[list-item]
        *_nodes(without, having),
        *_replicas(without, having),
        ("containers OOM-killed", str(without.ooms), str(having.ooms)),
        ("container restarts", str(without.restarts), str(having.restarts)),
        ("pods resized in place", "-", str(having.done[Action.RESIZE])),
        ("pods evicted", "-", str(having.done[Action.EVICT])),
        ("new pods given other requests", "-", str(having.done[Action.PATCH])),
        ("changes refused by a guard", "-", str(having.decided["UpdateRefused"])),
    ]


def _nodes(without: DayState, having: DayState) -> list[tuple[str, str, str]]:
    """Without Ullage the groups have a fixed size for the busiest hour."""
    if not without.nodes or not having.nodes:
        return []
    hours, last = (
        [f"{day.nodes.hours(day.at):.0f}" for day in (without, having)],
        [day.nodes.count(day.at) for day in (without, having)],
    )
    return [("node-hours", hours[0], hours[1]), ("nodes at the end", str(last[0]), str(last[1]))]


def _replicas(without: DayState, having: DayState) -> list[tuple[str, str, str]]:
    """Without Ullage a workload has a fixed number of pods for its busiest hour."""
    found = []
    for key in having.replicas.workloads:
        fixed = next((row.pods for row in without.rows() if row.workload.key == key), 0)
        hours = fixed * without.curve.hours, having.replicas.pods(key) * having.curve.hours
        found.append((f"replica-hours of {key.rpartition('/')[2]}", f"{hours[0]:.0f}", f"{hours[1]:.0f}"))
    return found


def chosen(state: DayState) -> str | None:
    """The decision to explain: one that followed an OOM kill, else an eviction, because people ask about those."""
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
