"""What is said at the end: the day with Ullage beside the same day without, why one decision was taken, and what to try next."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.demo import sentences
from agents.demo.picture import Picture
from schemas.outcomes import Action

_WIDEST = 400
_DEEPEST = 24


def compared(without: Picture, having: Picture) -> Table:
    """The two days as a table."""
    table = Table(title="the same day, same seed, same load", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("without Ullage", justify="right")
    table.add_column("with Ullage", justify="right", style="bold")
    for row in rows(without, having):
        table.add_row(*row)
    return table


def rows(without: Picture, having: Picture) -> Sequence[tuple[str, str, str]]:
    """Name, without, with."""
    days = (without.curve.total(), having.curve.total())
    last = (without.curve.averages()[-1:], having.curve.averages()[-1:])
    return [
        ("CPU requested and not used (slack)", *(f"{day.cpu_slack:.0%}" for day in days)),  # type: ignore[list-item]  # two each
        ("memory requested and not used", *(f"{day.memory_slack:.0%}" for day in days)),  # type: ignore[list-item]
        ("cores requested at the end", *(f"{m[0].cpu_requested:.1f}" if m else "-" for m in last)),  # type: ignore[list-item]
        ("memory requested at the end", *(sentences.memory(m[0].memory_requested) if m else "-" for m in last)),  # type: ignore[list-item]
        ("containers OOM-killed", str(without.ooms), str(having.ooms)),
        ("container restarts", str(without.restarts), str(having.restarts)),
        ("pods resized in place", "-", str(having.done[Action.RESIZE])),
        ("pods evicted", "-", str(having.done[Action.EVICT])),
        ("new pods given other requests", "-", str(having.done[Action.PATCH])),
        ("changes refused by a guard", "-", str(having.decided["UpdateRefused"])),
    ]


def chosen(picture: Picture) -> str | None:
    """The decision to explain: an eviction if there was one, because that is what people ask about."""
    return picture.explained.get(Action.EVICT) or picture.explained.get(Action.RESIZE)


def explained(console: Console, decision: str, lines: Iterable[str]) -> None:
    """The `why` of one decision, long lines cut."""
    console.print(Text(f"why {decision}?", style="bold"))
    shown = list(lines)
    for line in shown[:_DEEPEST]:
        console.print(Text(line if len(line) <= _WIDEST else f"{line[:_WIDEST]} …"), soft_wrap=False)
    if len(shown) > _DEEPEST:
        console.print(Text(f"… and {len(shown) - _DEEPEST} lines more"))


def next_steps(console: Console, config: str, decision: str | None, trace: Path | None = None) -> None:
    """Commands that work on the log which the day left behind."""
    console.print(Text("\nwhat to try next (the day's whole log was kept)", style="bold"))
    why = f"ullage why {decision} --config {config}"
    steps = [(f"ullage replay --verify --config {config}", "recompute every decision from the log; compare byte for byte")]
    if decision is not None:
        steps.append((why, "the whole chain behind one decision"))
    if trace is None:
        steps.append((f"ullage tap pod-updates --type UpdateRefused --limit 3 --config {config}", "what was left alone, and why"))
        steps.append(("ullage demo --seed 2", "another day; --trace FILE plays a recorded one"))
    else:
        steps.append((f"ullage tap recommendations --limit 3 --config {config}", "recommendations with the numbers they rest on"))
        steps.append((f"ullage backtest {trace} --set vertical.margin=0.3", "a score card; try other settings"))
    for command, meaning in steps:
        console.print(Text(f"  {command}", style="cyan"), Text(f"# {meaning}", style="dim"), soft_wrap=True)
