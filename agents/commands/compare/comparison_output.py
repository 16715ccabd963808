"""Writes a comparison of policies in the requested form, on stdout or into a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import orjson

from agents.commands.compare import comparison_table
from agents.terminal import html_table, output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import Row
from streams.errors import BadInput

ComparisonForm = Literal["table", "wide", "json", "yaml", "csv", "parquet", "md", "html", "svg"]


@dataclass(frozen=True, slots=True)
class PrintedComparison:
    """Sentences, a table for people, rows for programs, and everything as JSON."""

    sentences: Sequence[str]
    rows: Sequence[Row]
    exact: Sequence[Row]
    whole: object
    picture: str = ""


def write(form: ComparisonForm, to: Path | None, what: PrintedComparison) -> None:
    """Print it, or write it into a file. Raises BadInput when that cannot be."""
    if form == "parquet":
        _parquet(to, what.exact)
        return
    if to is not None and form == "table":
        form = "wide"  # a file is no terminal
    lines = list(_lines(form, what))
    if to is None:
        for line in lines:
            data(line)
        return
    try:
        to.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{to}' cannot be written: {error.strerror}") from error
    note(f"written to {to}")


def _lines(form: ComparisonForm, what: PrintedComparison) -> Iterator[str]:
    match form:
        case "json":
            yield orjson.dumps(what.whole).decode()
        case "yaml":
            yield from output_table.document("yaml", what.whole)
        case "csv":
            yield from output_table.lines("csv", what.rows, what.exact)
        case "svg":
            yield what.picture
        case "html":
            yield from html_table.lines("Policies compared", what.sentences, what.rows)
        case "md":
            yield from output_table.lines("md", what.rows, what.exact)
            yield ""
            for sentence in what.sentences:
                yield f"{sentence}  "
        case _:
            yield from output_table.fitted(form, what.sentences)
            yield from output_table.lines(
                "wide" if form == "wide" else "table", what.rows, what.exact, spare=comparison_table.SPARE
            )


def require_file(form: ComparisonForm, to: Path | None) -> None:
    """Raises BadInput for a binary form without a file, before any work is done."""
    if form == "parquet" and to is None:
        raise BadInput("Parquet is no text: give --fileoutput FILE.parquet")


def samples(folder: Path, to: Path) -> None:
    """Put the parts that `SampleRows` wrote into one Parquet file. Raises BadInput when that cannot be."""
    import duckdb

    parts = sorted(str(part) for part in folder.rglob("*.parquet"))
    if not parts:
        raise BadInput("there is no sample, so there is nothing to write")
    with _writing(to), duckdb.connect(config={"temp_directory": str(folder)}) as db:
        db.read_parquet(parts).write_parquet(str(to))
    note(f"samples written to {to}")


def _parquet(to: Path | None, rows: Sequence[Row]) -> None:
    import duckdb

    require_file(form="parquet", to=to)
    with TemporaryDirectory(prefix="ullage-rows-") as folder:
        lines = Path(folder) / "rows.jsonl"
        lines.write_bytes(b"".join(orjson.dumps(dict(row)) + b"\n" for row in rows))
        source, target = (str(path).replace("'", "''") for path in (lines, to))
        # DuckDB takes no parameters in COPY, hence the doubled quotes
        copy = "COPY (SELECT * FROM read_json('SOURCE', format='newline_delimited')) TO 'TARGET' (FORMAT parquet)"
        with _writing(to), duckdb.connect() as db:
            db.execute(copy.replace("SOURCE", source).replace("TARGET", target))
    note(f"{len(rows)} rows written to {to}")


@contextmanager
def _writing(to: Path | None) -> Iterator[None]:
    """Raises BadInput where the file cannot be written."""
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError) as error:
        raise BadInput(f"'{to}' cannot be written: {str(error).splitlines()[0]}") from error
