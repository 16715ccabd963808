"""README's table and picture: the demo's day in memory, without an autoscaler, by upstream's rules, by Ullage, and by `adaptive`.

`make figures` writes them; the same seed gives the same figures on every machine.
"""

import re
from datetime import timedelta
from pathlib import Path

from agents.demo import day_in_memory, day_picture, summary
from agents.demo.day_state import DayState
from agents.demo.demo_settings import Day
from agents.settings import loading
from agents.settings.all_settings import Settings
from schemas.outcomes import Action
from streams.log_context import LogContext

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs/pictures/container-day.svg"
_PLACE = re.compile(r"(<!-- figures: make figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)
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
        ("CPU requested and not used (slack)", *(f"{total.cpu_slack:.0%}" for total in totals)),
        ("memory requested and not used", *(f"{total.memory_slack:.0%}" for total in totals)),
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
    return [*lines, *(f"| {' | '.join(row)} |".replace("%", " %") for row in rows)]


if __name__ == "__main__":
    text, drawn = front()
    README.write_text(text)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn)
