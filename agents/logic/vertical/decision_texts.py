"""What a recommendation says in the log, written column by column for all decisions of a turn.

The texts are those that `plain_json.dumps` writes of the event, without building it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any

import numpy as np
import orjson

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.governing_policies import PolicyRecord
from agents.logic.usage.buckets import Buckets, cpu_buckets, memory_buckets
from agents.logic.usage.container_usage import UsageSettings
from agents.logic.vertical.aggregated_usage import REACHED
from agents.logic.vertical.estimate_rules import MILLI, RuleExplanations, own_rules
from agents.logic.vertical.recommended_amounts import Recommendation
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas import plain_json, times
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts
from schemas.times import NEVER

_CPU_BUCKETS, _MEMORY_BUCKETS = cpu_buckets(UsageSettings().growth), memory_buckets(UsageSettings().growth)


def json_text(value: object) -> str:
    """As JSON."""
    return plain_json.dumps(value).decode()


def policy_text(record: PolicyRecord | None) -> str:
    """What `governing_policies.body` has of a policy, as JSON: each workload may have its own, so it is written for each."""
    if record is None:
        return "null"
    policy = record.policy
    beside = f'"beside":{_quoted(policy.beside)},' if policy.beside else ""
    vpa = f',"vpa":{_quoted(policy.vpa.key)}' if policy.vpa is not None else ""
    place, target, version = _quoted(str(record.place)), _quoted(policy.target), _quoted(policy.version)
    return f'{{{beside}"place":{place},"target":{target},"version":{version}{vpa}}}'


class Template:
    """A text with gaps, written as `%s`."""

    def __init__(self, text: str) -> None:
        pieces = text.split("%s")
        self._pieces = [""] * (2 * len(pieces) - 1)
        self._pieces[::2] = pieces

    def filled(self, texts: Sequence[str]) -> str:
        """The text with one of these in each gap, in their order. Raises ValueError if there are more gaps, or fewer."""
        # Half of the time that the operator `%` takes: most of a recommendation is such gaps.
        pieces = self._pieces.copy()
        pieces[1::2] = texts
        return "".join(pieces)


_HERE: Any = orjson.Fragment("%s")
_FIELDS = {field.name: _HERE for field in fields(RequestsRecommended)}
BODY = Template(json_text(RequestsRecommended(**{**_FIELDS, "containers": (_HERE,)})))
"""A recommendation with a gap for the text of each field, and for those of its containers."""
_BOTH = Amounts(_HERE, _HERE)
_CONTAINER = Template(json_text(ContainerRecommendation(_HERE, _BOTH, _BOTH, _BOTH, _BOTH)))
_RESOURCE: Mapping[str, object] = {
    "confidence": _HERE,
    "minimum": _HERE,
    "percentiles": {"lower": _HERE, "target": _HERE, "upper": _HERE},
    "reached": dict.fromkeys(map(str, REACHED), _HERE),
}


def amount_texts(done: Recommendation, places: Indices, names: Sequence[str]) -> list[str]:
    """The four amounts of each of these containers, which have these names."""
    amounts, uncapped = done.amounts[places], done.uncapped[places]
    cores, memory = [*amounts[:, :3].T, uncapped[:, 0]], [*amounts[:, 3:].T, uncapped[:, 1]]
    pairs = [(_texts(cpu / MILLI), _whole_texts(whole)) for cpu, whole in zip(cores, memory, strict=True)]
    columns = map(plain_json.quoted, names), *(column for pair in pairs for column in pair)
    return list(map(_CONTAINER.filled, zip(*columns, strict=True)))


def reason_texts(done: Recommendation, settings: VerticalSettings, places: Indices) -> list[str]:
    """The numbers under the amounts of each of these containers, as `_layout` has them."""
    return [layout.filled(row) for layout, row in zip(_layouts(done, settings, places), _columns(done, places), strict=True)]


def _layouts(done: Recommendation, settings: VerticalSettings, places: Indices) -> list[Template]:
    """The layout of each container. Nearly all have the same rules, and those that are equal share one."""
    rules, own, layouts = done.of.rules[places], own_rules(settings), dict[bytes, Template]()
    data, width = rules.tobytes(), rules.itemsize * rules.shape[1]
    rows = [data[begin : begin + width] for begin in range(0, len(data), width)]
    for place, row in enumerate(rows):
        if row not in layouts:
            layouts[row] = Template(json_text(_layout(own.differing(rules[place].tolist()))))
    return [layouts[row] for row in rows]


def _columns(done: Recommendation, places: Indices) -> Iterator[tuple[str, ...]]:
    """The numbers of each container as texts, in the order in which its layout, with its names sorted, wants them."""
    evidence = done.evidence
    columns = [
        *_resource_columns(done, 0, places, _CPU_BUCKETS),
        list(map(_time, evidence.first[places].tolist())),
        list(map(_time, evidence.last[places].tolist())),
        *_resource_columns(done, 1, places, _MEMORY_BUCKETS),
        _texts(evidence.count[places].astype(np.int64)),
    ]
    return zip(*columns, strict=True)


def _layout(differing: RuleExplanations) -> Mapping[str, object]:
    """Where each number stands.

    `reached` says how much was used in a share of the time, or more (of memory, of its daily peaks); old samples lose weight.
    `shares` (percentiles) and `margin` are there if a policy changes them from the settings, bounds if there are any. CPU is in
    cores, memory in bytes.
    """
    return {
        "samples": _HERE,
        "first": _HERE,
        "last": _HERE,
        "cpu": {**_RESOURCE, **differing.cpu},
        "memory": {**_RESOURCE, **differing.memory},
        **differing.container,
    }


def _resource_columns(done: Recommendation, resource: int, places: Indices, buckets: Buckets) -> Iterator[list[str]]:
    """Those of CPU (0) or memory (1), in the order of their sorted names."""
    estimate, scale = (done.cpu, MILLI) if resource == 0 else (done.memory, 1.0)
    yield _texts(estimate.confidence[places])
    yield _texts(estimate.minimum[places] / scale)
    yield from (_texts(percentile[places]) for percentile in estimate.percentiles)
    for _, ends in sorted(zip(map(str, REACHED), done.evidence.reached[resource], strict=True)):
        # A percentile is the end of its bucket; what was certainly reached is where that bucket starts.
        yield _texts(buckets.starts[np.maximum(np.searchsorted(buckets.starts, ends[places]) - 1, 0)])


def _texts(column: Floats | Indices) -> list[str]:
    """The numbers as JSON; `null` for NaN."""
    return plain_json.dumps(np.ascontiguousarray(column)).decode()[1:-1].split(",")


def _whole_texts(column: Floats) -> list[str]:
    """The numbers without their fractions as JSON; `null` for NaN."""
    unknown = np.isnan(column)
    texts = _texts(np.where(unknown, 0.0, column).astype(np.int64))
    for place in unknown.nonzero()[0].tolist():
        texts[place] = "null"
    return texts


@lru_cache(maxsize=4096)
def _time(seconds: float) -> str:
    return "null" if seconds == NEVER else f'"{times.rfc3339(times.from_seconds(seconds))}"'
