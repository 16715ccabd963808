"""Which column of a Parquet file cannot be unpacked in the memory that DuckDB was given.

DELTA_BYTE_ARRAY says of each value how much it shares with the one before, so a page of two kilobytes can stand for gigabytes,
and a page or a dictionary can be as large as its header says. DuckDB asks its bounded memory for all of that before it unpacks
any of it, and refuses. What it says then names neither the file nor the column, which is what a person needs.
"""

from collections.abc import Iterable
from typing import Any


def too_large(db: Any, relation: str, columns: Iterable[str]) -> str | None:
    """The first of these quoted columns for which the memory is too small; None if each by itself has room.

    `relation` is SQL that may stand after FROM. Raises duckdb.Error for whatever else is wrong with the file.
    """
    import duckdb

    for column in columns:
        try:
            db.execute(f"select count({column}) from {relation}").fetchall()  # noqa: S608  # quoted by whoever calls
        except duckdb.OutOfMemoryException:
            return column
    return None
