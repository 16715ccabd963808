"""The figures of docs/sizing.md, computed from the table that `make bench` printed into docs/lab/bench.md.

`make sizing` writes them; a test holds that the page has them.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from streams.topics import CLOCK, DAY_MS, REACH_MS, TOPICS, KeySpace

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/sizing.md"
BENCH = ROOT / "docs/lab/bench.md"
_PLACE = re.compile(r"(<!-- from lab/bench.md: make sizing -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_ROW = re.compile(r"^\| (.+?) \| ([\d,.]+) ?([^|]*?) \|", re.MULTILINE)
_SIZES = {1_000: "1k", 10_000: "10k", 100_000: "100k"}
_SAMPLES_A_MINUTE = 2
"""Of a container: one of CPU, one of memory."""
_TICKS_A_SECOND = 2
_WRITTEN = re.compile(r"^\| `(\S+)` \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
_DISK_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
_SEGMENT_DAYS = 7
"""Days after which Kafka begins a new file. It deletes and compacts whole files, so records stay so much longer at most."""
_FREE = 0.2
"""Share of a volume that stays free: with less the alert and `doctor` warn."""
_CHANGELOGS = "changelogs"
USUAL = 10_000
"""Containers for which the chart's own Kafka is meant."""


_WATCH = re.compile(r"^\| `watch` \| \d+ \| ([\d.]+) \| ([\d.]+) % \|", re.MULTILINE)
"""MiB and percent of a core of the small layout at rest, which people measured: the row of the page's own table."""
_MIB = 1 << 20


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
    return "\n".join([*lines, "", *_sentences(rows), *_whole_table(rows)]) + "\n"


def written() -> dict[str, float]:
    """Bytes that a container adds in a day, the larger of two figures, by short name; those of `clock` are of an installation."""
    return {name: max(float(size.replace(",", "")) for size in sizes) for name, *sizes in _WRITTEN.findall(BENCH.read_text())}


def _days(name: str) -> float:
    """For how many days a topic has a record on disk, at most; what is compacted keeps little of what is older."""
    topic = next(each for each in TOPICS if each.name == name)
    days = topic.need.retention_ms / DAY_MS
    if "compact" in topic.cleanup:
        days = 0 if topic.keyed is KeySpace.LATEST else REACH_MS / DAY_MS
    return days + _SEGMENT_DAYS


def a_day(containers: int) -> float:
    """Bytes that are written in a day, of one copy."""
    return sum(size * (1 if name == CLOCK else containers) for name, size in written().items())


def on_disk(containers: int) -> float:
    """Bytes on disk when every topic has been kept for its time, of one copy. A changelog keeps what the last marks name."""
    kept = {name: size * _days(name) for name, size in written().items() if name != _CHANGELOGS}
    kept[_CHANGELOGS] = written()[_CHANGELOGS]  # a day's writes are far more than compaction leaves
    return sum(size * (1 if name == CLOCK else containers) for name, size in kept.items())


def volume_gib(containers: int) -> int:
    """GiB of a volume that holds it, with `_FREE` left free, in steps of five."""
    return math.ceil(on_disk(containers) / (1 - _FREE) / (1 << 30) / 5) * 5


def _whole_table(rows: Mapping[str, float]) -> list[str]:
    head = [
        "",
        "| containers | Ullage: memory | CPU | Kafka: memory | CPU | written a day | on disk, as kept | a volume |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines = []
    for count in _DISK_SIZES:
        sizes = [f"{a_day(count) / 1e9:,.2f} GB", f"{on_disk(count) / 1e9:,.0f} GB", f"{volume_gib(count):,} GiB"]
        lines.append(f"| {' | '.join([f'{count:,}', *_at_rest(count, rows), *sizes])} |")
    return head + lines


def _at_rest(count: int, rows: Mapping[str, float]) -> list[str]:
    """Memory and CPU of the small layout that watches, and of Kafka; no figure for a fleet that was not measured.

    The layout was measured with nothing to watch: to it comes what clock and worker take more with so many containers, and what
    `source kube` keeps of their pods.
    """
    label = f"{count:,} containers at rest"
    if f"{label}: memory of Kafka" not in rows:
        return ["-"] * 4
    watch = _WATCH.search(PAGE.read_text())
    assert watch is not None
    memory, cores = (
        float(base) + rows[f"{label}: {what} of clock and worker"] - rows[f"0 containers at rest: {what} of clock and worker"]
        for base, what in zip(watch.groups(), ("memory", "CPU"), strict=True)
    )
    memory += count * rows["kube source: memory a pod"] / _MIB
    kafka, kafkas_cores = rows[f"{label}: memory of Kafka"], rows[f"{label}: CPU of Kafka"]
    return [f"{memory:,.0f} MiB", f"{cores:.1f} % of a core", f"{kafka:,.0f} MiB", f"{kafkas_cores:.1f} %"]


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
