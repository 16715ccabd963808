"""README's tables and picture: the demo's day in memory without an autoscaler, by upstream's rules, by Ullage, and by `adaptive`;
and a recorded trace as it was, and by the same.

`make figures` writes them, that of the trace where the trace is; the figures are the same on every machine.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from agents.backtest.price_list import PriceList
from agents.commands.compare import backtested_policies, comparison_output
from agents.demo import day_in_memory, day_picture, summary
from agents.demo.day_state import DayState
from agents.demo.demo_settings import Day
from agents.settings import loading
from agents.settings.all_settings import Settings
from schemas.outcomes import Action
from streams.log_context import LogContext
from tests.support.real_traces import TRACES

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs/pictures/container-day.svg"
_PLACE = re.compile(r"(<!-- figures: make figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_RECORDED = re.compile(r"(<!-- recorded: make figures -->\n).*?(<!-- end of recorded -->)", re.DOTALL)
TRACE = TRACES / "google2019-borg"
_POLICIES = ("recorded", "upstream", "default", "adaptive")
_NAMES = ("no autoscaler", "the originals' rules", "Ullage", "Ullage, `adaptive` (alpha)")


def front() -> tuple[str, str]:
    """README and the picture as they are to be."""
    demo = Settings().demo
    day = Day(Settings().cluster.seed, 1.0, demo.partitions, timedelta(seconds=demo.tick_seconds))
    log = day_in_memory.new_log(day)
    *_, ours = day_in_memory.played(day, loading.load(flags=day.in_one_process()).settings, log)
    days = (day_in_memory.untouched(day), day_in_memory.by_upstreams_rules(day), ours, day_in_memory.by_adaptive(day))
    context = LogContext.of(log, day.topics)
    picture = day_picture.picture(context)
    assert picture is not None, "no container was killed and then resized"
    return _PLACE.sub(lambda place: place[1] + "\n".join(_table(*days)) + "\n" + place[2], README.read_text()), picture


def _table(*days: DayState) -> list[str]:
    totals = [day.curve.total() for day in days]
    (orders,) = days[-1].replicas.workloads
    fixed = next(row.pods for row in days[0].rows() if row.workload.key == orders) * days[0].curve.hours
    acted_on = days[1:]
    rows = [
        ("CPU requested and not used (slack)", *(f"{total.cpu.slack:.0%}" for total in totals)),
        ("memory requested and not used", *(f"{total.memory.slack:.0%}" for total in totals)),
        ("containers OOM-killed", *(str(day.ooms) for day in days)),
        ("node-hours", *(f"{day.nodes.hours(day.at):.0f}" for day in days)),
        (
            "replica-hours of the one that scales",
            f"{fixed:.0f}",
            *(f"{day.replicas.pods(orders) * day.curve.hours:.0f}" for day in acted_on),
        ),
        (
            "pods resized in place, and evicted",
            "-",
            *(f"{day.done[Action.RESIZE]}, {day.done[Action.EVICT]}" for day in acted_on),
        ),
        *summary.promises(days),
        ("every change explained, recomputed from the log, tried before on yesterday's data", "-", "-", "yes", "yes"),
    ]
    lines = [f"| {' | '.join(('', *_NAMES))} |", "|---|" + "---:|" * len(_NAMES)]
    return [*lines, *map(_row, rows)]


def recorded() -> str:
    """README as it is to be, with the table of the recorded trace."""
    specs = backtested_policies.read(_POLICIES, Settings(), ())
    scores = backtested_policies.run(TRACE, specs, Settings(), PriceList())
    columns = list(comparison_output.shown(scores, {}, PriceList()))
    rows = [
        ("CPU requested and not used (slack)", *(f"{column['cpu slack']}" for column in columns)),
        ("memory requested and not used", *(f"{column['memory slack']}" for column in columns)),
        ("times that memory went over a limit", *(f"{column['OOM kills']}" for column in columns)),
        ("time with more CPU used than requested", *(f"{column['cpu over']}" for column in columns)),
        # what Borg changed itself was not done by any of these
        ("changes of a container each day", "-", *(f"{column['changes/container-day']}" for column in columns[1:])),
        ("cost at OpenCost's default rates, USD", *(f"{column['cost (USD)']}" for column in columns)),
    ]
    lines = [f"| {' | '.join(('', 'as it was', *_NAMES[1:]))} |", "|---|" + "---:|" * len(_NAMES), *map(_row, rows)]
    return _RECORDED.sub(lambda place: place[1] + "\n".join(lines) + "\n" + place[2], README.read_text())


def _row(cells: Sequence[str]) -> str:
    """A row of a table; a percent sign stays on the line of its number."""
    return f"| {' | '.join(cells)} |".replace("%", "\N{NO-BREAK SPACE}%")


if __name__ == "__main__":
    text, drawn = front()
    README.write_text(text)
    if TRACE.exists():
        README.write_text(recorded())
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn)
