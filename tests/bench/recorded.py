"""The CPU that `ullage backtest` takes for the whole of a large recorded trace."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

Put = Callable[[str, float, str, str], None]
TRACE = Path(os.environ.get("ULLAGE_SHARED", "../shared")) / "traces" / "bitbrains-rnd" / "usage.parquet"


def measure(put: Put) -> None:
    """Backtest the trace once, in a process of its own; nothing is measured where the trace is absent."""
    if not TRACE.exists():
        sys.stdout.write(f"no {TRACE}, so no backtest is measured\n")
        return
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "agents", "backtest", str(TRACE)], check=True, stdout=subprocess.DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    put("backtest of bitbrains-rnd, 5.3 million rows: CPU", used, "s", "<= 60")
