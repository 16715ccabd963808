"""A table as one self-contained HTML page: light and dark, readable on paper."""

import html
from collections.abc import Iterator, Sequence

from agents.terminal.output_table import Row

STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}"
    "th,td{border-bottom:1px solid #8886;padding:.3rem .7rem;text-align:left;vertical-align:top}"
)


def lines(title: str, sentences: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """The page: a heading, sentences, and a table with the columns of the first row."""
    names = list(rows[0]) if rows else []
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
    yield f"<h1>{html.escape(title)}</h1>"
    yield from (f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
    yield "<table><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr>"
    for row in rows:
        cells = ("" if row[name] is None else str(row[name]) for name in names)
        yield "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table></body></html>"
