"""The figures of docs/sizing.md, computed from the table that `make bench` printed into docs/lab/bench.md.

`make sizing` writes them; a test holds that the page has them.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/sizing.md"
BENCH = ROOT / "docs/lab/bench.md"
_PLACE = re.compile(r"(<!-- from lab/bench.md: make sizing -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_ROW = re.compile(r"^\| (.+?) \| ([\d,.]+) ?([^|]*?) \|", re.MULTILINE)
_SIZES = {1_000: "1k", 10_000: "10k", 100_000: "100k"}
_SAMPLES_A_MINUTE = 2
"""Of a container: one of CPU, one of memory."""
_TICKS_A_SECOND = 2


def measured() -> dict[str, float]:
    """The value of each row of the table, in the row's own unit; of rows with one name, the first."""
    rows: dict[str, float] = {}
    for name, value, _ in _ROW.findall(BENCH.read_text()):
        rows.setdefault(name, float(value.replace(",", "")))
    return rows


def page() -> str:
    """The page as it is to be."""
    return _PLACE.sub(lambda place: place[1] + _figures(measured()) + place[2], PAGE.read_text())


def _figures(rows: dict[str, float]) -> str:
    lines = [
        "| containers | samples a second | CPU for them | state in memory, a VPA each | all state of a checkpoint |",
        "|---|---:|---:|---:|---:|",
    ]
    for count, short in _SIZES.items():
        second = count * _SAMPLES_A_MINUTE / 60
        share = second / rows[f"{short} containers: samples per CPU second"]
        memory = count * rows[f"{short} containers, a VPA each: memory a container"] / 1e6
        checkpoint = rows[f"{short} containers: checkpoint bytes"] / 1e6
        lines.append(f"| {count:,} | {second:,.0f} | {share * 100:.1g} % of a core | {memory:,.1f} MB | {checkpoint:.1f} MB |")
    return "\n".join([*lines, "", *_sentences(rows)]) + "\n"


def _sentences(rows: dict[str, float]) -> list[str]:
    tick, name = rows["idle tick: CPU"], "100k containers"
    kilobytes, bare = (rows[f"{name}, {vpas}: memory a container"] / 1000 for vpas in ("a VPA each", "no VPA"))
    killed, joins = rows["rebalance gap: a worker is killed"], rows["rebalance gap: a worker joins"]
    few, many, two = (
        rows[f"{row}, times real time"]
        for row in ("10k containers: catching up", f"{name}: catching up", f"{name}: catching up with two workers")
    )
    recovery = rows[f"{name}: recovery"]
    share = tick * _TICKS_A_SECOND / 10
    return [
        f"- **Samples cost almost nothing.** A quiet worker spends its time on ticks: {tick:.0f} ms of CPU each, so",
        f"  {share:.1f} % of a core at two a second.",
        f"- **Memory**: {kilobytes:.1f} KB a container with a VPA for each, {bare:.1f} KB without, in addition to Python and its",
        "  libraries.",
        f"- **Recovery** of 100,000 containers took {recovery:.1f} s. When a worker is killed its partitions stand",
        f"  still for {killed:.1f} s, when one joins for {joins:.1f} s.",
        f"- **Catching up** after an outage ran at {few:.0f} times real time for 10,000 containers, and at {many:.0f} times for",
        f"  100,000 ({two:.0f} with two workers).",
    ]


if __name__ == "__main__":
    PAGE.write_text(page())
