"""Writes a comparison of policies, a row for each policy or workload, in the requested form, on stdout or into a file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isinf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import orjson

from agents.backtest.policy_comparison import Interval, PolicyDifference, PolicyScore, WorkloadFigures
from agents.backtest.price_list import PriceList
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import Row
from schemas.names import Workload
from streams.errors import BadInput

SPARE = (
    *(
        "from → to",
        "core-hours saved",
        "GiB-hours saved",
        "cpu short",
        "cpu over in first 12 h",
        "cpu over",
        "memory over",
        "changes",
        "kills/container-day",
        "changes/container-day",
    ),
    *("kills against", "difference", "cpu slack", "cpu (core-hours)"),
)
"""The columns that a narrow terminal does without, the first to go first."""


def shown(scores: Sequence[PolicyScore], differences: Mapping[str, PolicyDifference], prices: PriceList) -> Iterator[Row]:
    """A row for each policy, for people."""
    for score in scores:
        # `or 1.0`: an empty recording has no hours, and all its shares are 0
        hours = score.total("container_hours") or 1.0
        against = differences.get(score.name)
        yield {
            "policy": score.name,
            f"cost ({prices.currency})": f"{score.total('cost'):.2f}",
            "against baseline": "baseline" if against is None else _share(against.cost),
            "cpu slack": _slack(score, "cpu"),
            "memory slack": _slack(score, "memory"),
            "OOM kills": round(score.total("kills")),
            "kills against": "" if against is None else _count(against.kills),
            "kills/container-day": f"{score.total('kills') / hours * 24:.3f}",
            "changes/container-day": f"{score.total('changes') / hours * 24:.2f}",
            "cpu over": _over(score, "cpu"),
            "cpu over in first 12 h": _early(score),
            "cpu short": _short(score),
            "memory over": _over(score, "memory"),
            "core-hours saved": _saved(scores[0], score, "cpu"),
            "GiB-hours saved": _saved(scores[0], score, "memory"),
        }


def _slack(score: PolicyScore, resource: str) -> str:
    requested = score.total(f"{resource}_requested")
    return f"{score.total(f'{resource}_slack') / requested:.1%}" if requested else "-"


def _over(score: PolicyScore, resource: str) -> str:
    """The share of container time in which use was over the request."""
    hours = score.total("container_hours")
    spent = sum(getattr(workload, f"{resource}_over") * workload.container_hours for workload in score.workloads.values())
    return f"{spent / hours:.2%}" if hours else "-"


def _early(score: PolicyScore) -> str:
    """The same share of the first 12 hours of each container alone, in which a policy knows hardly anything of it."""
    hours = score.total("first_12h_hours")
    spent = sum(figures.cpu_over_first_12h * figures.first_12h_hours for figures in score.workloads.values())
    return f"{spent / hours:.2%}" if hours else "-"


def _short(score: PolicyScore) -> str:
    """CPU used above the request, as a share of all CPU used."""
    used, requested, slack = (score.total(f"cpu_{what}") for what in ("used", "requested", "slack"))
    # what would be throttled where others take the rest of a node: use = requested - slack + short
    return f"{(used + slack - requested) / used:.2%}" if used else "-"


def _saved(baseline: PolicyScore, score: PolicyScore, resource: str) -> str:
    if score is baseline:
        return ""
    return f"{baseline.total(f'{resource}_requested') - score.total(f'{resource}_requested'):,.1f}"


def _share(of: Interval) -> str:
    return f"{of.estimate:+.1%} ({of.low:+.1%} to {of.high:+.1%}){'' if of.certain else ' ~'}"


def _count(of: Interval) -> str:
    return f"{of.estimate:+.0f} ({of.low:+.0f} to {of.high:+.0f}){'' if of.certain else ' ~'}"


def workload_rows(scores: Sequence[PolicyScore]) -> Iterator[Row]:
    """A row for each policy and workload, for programs."""
    for score in scores:
        for figures in score.workloads.values():
            yield {"policy": score.name, **_named(figures)}


def _named(figures: WorkloadFigures) -> dict[str, object]:
    of = asdict(figures)
    workload = Workload.parse(of.pop("workload"))
    return {**asdict(workload), **of}


def as_object(scores: Sequence[PolicyScore], differences: Mapping[str, PolicyDifference], prices: PriceList) -> dict[str, object]:
    """All of it as JSON."""
    return {
        "prices": asdict(prices),
        "policies": [
            {"name": score.name, "card": score.card, "gated_kills": score.gated_kills, "workloads": list(workload_rows([score]))}
            for score in scores
        ],
        "differences": [
            # JSON has no infinity, which is the regression from no kills to some
            {**asdict(difference), "regression": None if isinf(difference.regression) else difference.regression}
            for difference in differences.values()
        ],
    }


def differing(first_policy: PolicyScore, second_policy: PolicyScore, top: int, currency: str) -> Iterator[Row]:
    """The workloads that differ most between two policies: half of them in cost, half in risk."""
    pairs = [
        (first_policy.workloads[name], second_policy.workloads[name])
        for name in first_policy.workloads
        if name in second_policy.workloads
    ]
    # names settle ties, so that two runs list the same workloads
    by_cost = sorted(pairs, key=lambda pair: (-abs(pair[1].cost - pair[0].cost), pair[0].workload))
    by_risk = sorted(pairs, key=lambda pair: (-_risk(*pair), pair[0].workload))
    # one by risk, one by cost, so that a short list has both
    in_turn = (pair for both in zip(by_risk, by_cost, strict=True) for pair in both)
    taken = dict.fromkeys(first.workload for first, second in in_turn if first != second)
    for name in list(taken)[:top]:
        before, after = first_policy.workloads[name], second_policy.workloads[name]
        yield {
            **_difference(before, after, currency),
            "from → to": f"{first_policy.name} → {second_policy.name}",
        }


def _risk(before: WorkloadFigures, after: WorkloadFigures) -> float:
    """How much their risks for a workload differ."""
    kills, memory, cpu = after.kills - before.kills, after.memory_over - before.memory_over, after.cpu_over - before.cpu_over
    # an order only: a kill costs more than any time over memory, and that more than CPU, which only throttles
    return abs(kills) + abs(memory) / 10 + abs(cpu) / 100


def _difference(before: WorkloadFigures, after: WorkloadFigures, currency: str) -> Row:
    workload = Workload.parse(before.workload)
    return {
        "namespace": workload.namespace,
        "workload": f"{workload.kind}/{workload.name}",
        f"cost ({currency})": f"{before.cost:.3f} → {after.cost:.3f}",
        "difference": f"{after.cost - before.cost:+.3f}",
        "cpu (core-hours)": f"{before.cpu_requested:.2f} → {after.cpu_requested:.2f}",
        "memory (GiB-hours)": f"{before.memory_requested:.2f} → {after.memory_requested:.2f}",
        "OOM kills": f"{before.kills} → {after.kills}",
        "cpu over": f"{before.cpu_over:.1%} → {after.cpu_over:.1%}",
        "memory over": f"{before.memory_over:.1%} → {after.memory_over:.1%}",
        "changes": f"{before.changes} → {after.changes}",
    }


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
            yield from output_table.html_page("Policies compared", what.sentences, what.rows)
        case "md":
            yield from output_table.lines("md", what.rows, what.exact)
            yield ""
            for sentence in what.sentences:
                yield f"{sentence}  "
        case _:
            yield from output_table.fitted(form, what.sentences)
            yield from output_table.lines("wide" if form == "wide" else "table", what.rows, what.exact, spare=SPARE)


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
