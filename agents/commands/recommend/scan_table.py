"""The table of `ullage scan`: krr's columns, its forms, and a grade for each container and for the whole."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from agents.commands.recommend import request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.terminal import output_table
from agents.terminal.output_table import Row
from agents.why import event_descriptions
from schemas.names import Amounts
from schemas.units import Bytes, Cores, counted

ScanForm = Literal["table", "wide", "json", "yaml", "csv", "csv-raw", "markdown", "html"]
_GRADES = ((90.0, "A"), (80.0, "B"), (70.0, "C"), (60.0, "D"), (50.0, "E"))
_SPARE = ("number", "type", "cpu limits", "memory limits", "why", "pods", "memory diff", "cpu diff", "score", "container")
_PENALTY: Mapping[str, float] = {"high": 60.0, "medium": 30.0, "unknown": 30.0}
_WASTE = 40.0
_amount = partial(event_descriptions.amount, "unset")


def score(row: RecommendedContainer) -> float:
    """From 0 to 100. Risk takes 60 or 30 points off; requests that are too large up to 40, by the share to be freed."""
    requests = row.requests or Amounts()
    shares = (_freed(requests.cpu, row.target.cpu), _freed(requests.memory, row.target.memory))
    return max(0.0, 100.0 - _PENALTY.get(row.risk, 0.0) - _WASTE * sum(shares) / len(shares))


def grade(points: float) -> str:
    """A to F, as krr grades."""
    return next((letter for least, letter in _GRADES if points >= least), "F")


def _freed(now: float | None, target: float | None) -> float:
    return max(0.0, 1.0 - target / now) if now and target is not None else 0.0


def lines(form: ScanForm, rows: Sequence[RecommendedContainer], *, several: bool) -> Iterator[str]:
    """The lines to print. `csv-raw`, `json` and `yaml` have cores and bytes; `several`: rows are of several clusters."""
    shown = [_shown(number, row, several=several) for number, row in enumerate(rows, 1)]
    match form:
        case "csv":
            yield from output_table.lines("csv", shown, shown)
        case "csv-raw":
            yield from output_table.lines("csv", shown, [_exact(row) for row in rows])
        case "markdown":
            yield from output_table.lines("md", shown, shown)
        case "html":
            yield from output_table.html_page("Recommendations", [summary(rows)], shown)
        case "json" | "yaml" | "table" | "wide":
            yield from output_table.lines(form, shown, [_exact(row) for row in rows], spare=_SPARE)


def _shown(number: int, row: RecommendedContainer, *, several: bool) -> Row:
    """In krr's columns."""
    now, limits, points = row.requests or Amounts(), _limits(row), score(row)
    return {
        "number": number,
        **({"cluster": row.cluster} if several else {}),
        "namespace": row.namespace,
        "name": row.workload,
        "pods": row.pods,
        "type": row.kind,
        "container": row.container,
        "cpu diff": _difference(row.saved.cpu, _amount(cpu=abs(row.saved.cpu or 0.0))),
        "cpu requests": f"{_amount(cpu=now.cpu)} -> {_amount(cpu=row.target.cpu)}",
        "cpu limits": f"{_amount(cpu=row.limits.cpu)} -> {_amount(cpu=limits.cpu)}",
        "memory diff": _difference(row.saved.memory, _amount(memory=abs(row.saved.memory or 0))),
        "memory requests": f"{_amount(memory=now.memory)} -> {_amount(memory=row.target.memory)}",
        "memory limits": f"{_amount(memory=row.limits.memory)} -> {_amount(memory=limits.memory)}",
        "risk": row.risk,
        "score": f"{points:.0f} {grade(points)}",
        "why": row.remark,
    }


def _limits(row: RecommendedContainer) -> Amounts:
    """The resulting limits, with the present ratio to the request."""
    now = row.requests or Amounts()
    cpu = _scaled(row.limits.cpu, now.cpu, row.target.cpu)
    memory = _scaled(row.limits.memory, now.memory, row.target.memory)
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(int(memory)))


def _scaled(limit: float | None, request: float | None, target: float | None) -> float | None:
    # a limit without a request has no ratio, and stays
    return limit * target / request if limit is not None and request and target is not None else limit


def _difference(saved: float | None, text: str) -> str:
    """How much more or less all pods together would request."""
    # krr's sign: what is saved is a decrease
    return "" if saved is None else f"{'-' if saved > 0 else '+'}{text}"


def _exact(row: RecommendedContainer) -> Row:
    now, limits = row.requests or Amounts(), _limits(row)
    amounts = {"requests": now, "recommended_requests": row.target, "limits": row.limits, "recommended_limits": limits}
    numbers = {f"{what}_{name}": getattr(amount, name) for what, amount in amounts.items() for name in ("cpu", "memory")}
    names = {"cluster": row.cluster, "namespace": row.namespace, "kind": row.kind, "name": row.workload}
    judged = {"risk": row.risk, "score": round(score(row), 1), "why": row.why, "held_by": row.held_by}
    judged |= {
        "held_because": "; ".join(dict.fromkeys(cap.sentence for cap in row.caps)),
        "other_recommender": row.other_recommender,
    }
    over = dict(zip(("cpu_over_request", "memory_over_request"), row.over, strict=True))
    return {**names, "container": row.container, "pods": row.pods, **numbers, **judged, **over}


def summary(rows: Sequence[RecommendedContainer]) -> str:
    """One sentence about all of them."""
    if not rows:
        return "nothing to recommend: no usage was found of what was asked for"
    points = sum(map(score, rows)) / len(rows)
    cpu, memory = sum(row.saved.cpu or 0.0 for row in rows), sum(row.saved.memory or 0 for row in rows)
    change = request_totals.freed_or_added(cpu, memory)
    return (
        f"{counted(len(rows), 'container')}; score {points:.0f} of 100, grade {grade(points)}; {change}. "
        "Freed requests are money only when nodes leave"
    )
