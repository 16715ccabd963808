"""Traces of real workloads, which lie outside the repository; whole or their first days."""

import os
from pathlib import Path

import duckdb
import pytest

TRACES = Path(os.environ.get("ULLAGE_SHARED", Path(__file__).parents[3] / "shared")) / "traces"


def trace(name: str, days: int | None, folder: Path) -> Path:
    """The trace, or its first days, which CI has time for; all of it where ULLAGE_WHOLE_TRACES is set."""
    whole = TRACES / name
    if not whole.exists():
        pytest.skip(f"there is no trace {name} under ULLAGE_SHARED (default ../shared)")
    if days is None or os.environ.get("ULLAGE_WHOLE_TRACES"):
        return whole
    part = folder / name
    part.mkdir()
    usage = duckdb.read_parquet(f"{whole}/usage.parquet")
    [(first,)] = usage.min("timestamp_s").fetchall()
    usage.filter(f"timestamp_s < {first + days * 86_400}").write_parquet(f"{part}/usage.parquet")
    if (whole / "containers.parquet").exists():
        (part / "containers.parquet").symlink_to(whole / "containers.parquet")
    return part
