"""The live view: a picture as something to look at. Only drawing; every number comes from `agents.demo.picture`."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.demo import sentences
from agents.demo.picture import Picture, WorkloadRow
from schemas.outcomes import Action

_BARS = " ▁▂▃▄▅▆▇█"
_SLICES = 48
_TOP = 12
_FEWEST = 4
_FRAME = 16
"""Lines of all but workloads and actions: border 2, about 2, day 1, curves 6, table head 2, counts 1, heading 1, cursor 1."""


@dataclass(frozen=True, slots=True)
class Story:
    """What frames the picture: a title, a sentence for who looks for the first time, and how far along we are (0 to 1)."""

    title: str
    about: str
    progress: float
    footer: str


def draw(picture: Picture, story: Story, *, height: int = 50) -> RenderableType:
    """The whole view; on a low screen with fewer workloads and actions, so that its end is seen, too."""
    rows = picture.rows()
    shown = max(_FEWEST, min(_TOP, len(rows), height - _FRAME - _FEWEST - 1))
    room = max(_FEWEST, height - _FRAME - shown - (len(rows) > shown))
    parts = [
        Text(story.about, style="dim"),
        _day(picture, story),
        _curves(picture),
        _workloads(rows, shown),
        _counts(picture),
        _actions(picture, min(room, picture.actions.maxlen or room)),
    ]
    return Panel(Group(*parts), title=story.title, subtitle=story.footer, box=box.ROUNDED, padding=(0, 1))


def plain(picture: Picture, story: Story) -> str:
    """One line, for where no terminal is."""
    now = picture.now
    return (
        f"{story.progress:4.0%}, {_when(picture)}: "
        f"cpu {now.cpu_requested:.1f} requested {now.cpu_used:.1f} used, "
        f"memory {sentences.memory(now.memory_requested)} requested {sentences.memory(now.memory_used)} used, "
        f"{_counted(picture)}"
    )


def bars(values: Sequence[float], top: float) -> str:
    """Values as a row of blocks; `top` fills the height."""
    if top <= 0:
        return ""
    return "".join(_BARS[min(8, max(0, round(8 * v / top)))] for v in values)


def _when(picture: Picture) -> str:
    return f"{picture.at:%d %b %H:%M}" if picture.at else "starting"


def _day(picture: Picture, story: Story) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        Text("simulated time"),
        Text(_when(picture), style="bold"),
        ProgressBar(total=1.0, completed=min(1.0, story.progress), width=_SLICES),
        Text(f"mode {picture.mode.value}, {picture.pods} pods", style="dim"),
    )
    return grid


def _curves(picture: Picture) -> RenderableType:
    day, now = picture.curve.averages()[-_SLICES:], picture.now
    grid = Table.grid(padding=(0, 2))
    last = day[-1] if day else now
    cores = (f"{now.cpu_requested:.1f}", f"{now.cpu_used:.1f}", f"{last.cpu_recommended:.1f}")
    sizes = [sentences.memory(size) for size in (now.memory_requested, now.memory_used, last.memory_recommended)]
    _curve(grid, "CPU cores", [m.cpu for m in day], cores)
    _curve(grid, "memory", [m.memory for m in day], sizes)
    return grid


def _curve(grid: Table, name: str, day: Sequence[tuple[float, float, float]], now: Sequence[str]) -> None:
    top = max((max(amounts) for amounts in day), default=0.0)
    for i, (what, style) in enumerate((("requested", "yellow"), ("used", "green"), ("recommended", "cyan"))):
        grid.add_row(Text("" if i else name, style="bold"), what, Text(now[i]), Text(bars([m[i] for m in day], top), style=style))


def _workloads(rows: Sequence[WorkloadRow], shown: int) -> RenderableType:
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, expand=True, padding=(0, 1))
    table.add_column("workload", no_wrap=True, ratio=1, min_width=19)
    for name in ("pods", "cpu request", "used", "mem request", "used", "advice for a pod", "OOMs"):
        table.add_column(name, justify="right", no_wrap=True)
    biggest = sorted(rows, key=lambda r: (-r.cpu_requested, r.workload.key))[:shown]
    for row in sorted(biggest, key=lambda r: r.workload.key):
        table.add_row(
            f"{row.workload.namespace}/{row.workload.name}",
            str(row.pods),
            sentences.cpu(row.cpu_requested),
            _shade(sentences.cpu(row.cpu_used), row.cpu_used, row.cpu_requested),
            sentences.memory(row.memory_requested),
            _shade(sentences.memory(row.memory_used), row.memory_used, row.memory_requested),
            Text("not yet", style="dim")
            if row.target is None
            else f"{sentences.cpu(row.target.cpu)} · {sentences.memory(row.target.memory)}",
            Text(str(row.ooms), style="bold red" if row.ooms else "dim"),
        )
    if len(rows) > shown:
        table.caption = f"the {shown} largest of {len(rows)} workloads"
    return table


def _shade(text: str, used: float, requested: float) -> Text:
    """Yellow: much of the request lies idle; red: more is used than requested."""
    share = used / requested if requested else 1.0
    return Text(text, style="red" if share > 1 else "yellow" if share < 0.5 else "green")  # noqa: PLR2004  # half


def _counts(picture: Picture) -> RenderableType:
    text = Text(_counted(picture))
    if picture.refusals:
        text.append(f" (mostly: {picture.refusals.most_common(1)[0][0]})", style="dim")
    return text


def _counted(picture: Picture) -> str:
    done = picture.done
    return (
        f"{picture.ooms} OOM kills, {done[Action.RESIZE]} resized in place, "
        f"{done[Action.EVICT]} evicted, {picture.decided['UpdateRefused']} left alone"
    )


def _actions(picture: Picture, room: int) -> RenderableType:
    lines = [Text("what happened last, and why", style="bold")]
    last = list(picture.actions)[-room:]
    for sentence in last:
        style = "red" if "OOM-killed" in sentence else ""
        lines.append(Text(f"• {sentence}", style=style, overflow="ellipsis", no_wrap=True))
    lines += [Text("")] * (room - len(last))
    return Group(*lines)
