"""The rules of prometheus-adapter as a source of queries: a metric's name there determines its query.

A rule applies to a metric if the name that the rule produces matches, and the first such rule counts. Its template gets the
series' name and matchers that limit it to the workload. Source: `pkg/prometheus-adapter` of Crane.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.logic.replicas import metric_queries
from agents.logic.replicas.ehpa_manifest import Ehpa
from agents.logic.replicas.hpa_metrics import HpaMetric

_LISTS = {"rules": "Pods", "externalRules": "External"}
_SERIES = re.compile(r"^\s*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:\{(?P<matchers>.*)\})?\s*$", re.DOTALL)
_MATCHER = re.compile(r'\s*(?P<label>[a-zA-Z_][a-zA-Z0-9_]*)\s*(?P<how>=~|!~|!=|=)\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*(?:,|$)')
_GROUPING = re.compile(r"\s*by\s*\(\s*<<\s*\.GroupBy\s*>>\s*\)\s*$")
_PLACE = re.compile(r"<<\s*\.(\w+)\s*>>")
_GROUP = re.compile(r"\$\{?(\d+)\}?")
_LONGEST = 1000
"""The most characters of a pattern or name: no real metric has a longer name."""


@dataclass(frozen=True, slots=True)
class MetricRule:
    """One rule: the kind of metric, the pattern of names, the series, its own matchers, the template, and labels."""

    kind: str
    pattern: str
    series: str
    matchers: tuple[str, ...]
    template: str
    labels: Mapping[str, str]
    namespaced: bool = True

    def query(self, ehpa: Ehpa, metric: HpaMetric, extra: Sequence[str]) -> str:
        """The query of a metric that the rule applies to."""
        escaped = metric_queries.escaped
        where = [*self.matchers, *extra, *(f'{key}="{escaped(value)}"' for key, value in metric.selector)]
        if self.namespaced:
            where.append(f'{self.labels.get("namespace", "namespace")}="{escaped(ehpa.namespace)}"')
        if self.kind != "External":
            where.append(f'{self.labels.get("pod", "pod")}=~"{metric_queries.pods(ehpa)}"')
        if metric.kind == "ContainerResource":
            where.append(f'{self.labels.get("container", "container")}="{escaped(metric.container)}"')
        filled = {"Series": self.series, "LabelMatchers": ",".join(where)}
        return _PLACE.sub(lambda match: filled[match[1]], self.template)


def read(config: Mapping[str, object]) -> tuple[MetricRule, ...]:
    """The rules of an adapter's configuration, in its order. Raises a ValueError that names the rule and its fault."""
    rules = []
    for place, kind in _LISTS.items():
        for number, entry in enumerate(_sequence(config.get(place))):
            rules.append(_rule(kind, _mapping(entry), f"{place}[{number}]"))
    resources = _mapping(config.get("resourceRules"))
    for name in ("cpu", "memory"):
        entry = _mapping(resources.get(name))
        if entry.get("containerQuery"):
            template, where = _template(str(entry["containerQuery"]), f"resourceRules.{name}"), _mapping(entry.get("resources"))
            labels = {**_labels(where), "container": str(entry.get("containerLabel") or "container")}
            rules.append(MetricRule("Resource", f"^{name}$", "", (), template, labels))
    return tuple(rules)


def query(ehpa: Ehpa, metric: HpaMetric, rules: Sequence[MetricRule], extra: Sequence[str] = ()) -> str:
    """The query from the first rule that applies; empty if none does. `extra` are matchers for every query."""
    kind = "Resource" if metric.kind == "ContainerResource" else metric.kind
    # The name is a tenant's and the pattern an administrator's: cut, so that a slow pattern cannot be fed without end.
    fitting = (rule for rule in rules if rule.kind == kind and re.search(rule.pattern, metric.name[:_LONGEST]))
    rule = next(fitting, None)
    return "" if rule is None else rule.query(ehpa, metric, extra)


def _rule(kind: str, entry: Mapping[str, object], where: str) -> MetricRule:
    series = _SERIES.match(str(entry.get("seriesQuery") or ""))
    if series is None:
        raise ValueError(f"{where}.seriesQuery '{entry.get('seriesQuery')}' is no series such as 'name{{label=\"x\"}}'")
    matchers = [match.groupdict() for match in _MATCHER.finditer(series["matchers"] or "")]
    named = [matcher for matcher in matchers if matcher["label"] == "__name__"]
    name = series["name"] or (named[0]["value"] if named else "")
    if not name:
        raise ValueError(f"{where}.seriesQuery names no series")
    literal = not named or named[0]["how"] == "="
    own = tuple(
        f'{matcher["label"]}{matcher["how"]}"{matcher["value"]}"' for matcher in matchers if matcher["label"] != "__name__"
    )
    if not literal:
        own = (f'__name__=~"{name}"', *own)
    resources = _mapping(entry.get("resources"))
    return MetricRule(
        kind,
        _pattern(name, _mapping(entry.get("name")), where, literal=literal),
        name if literal else "",
        own,
        _template(str(entry.get("metricsQuery") or ""), where),
        _labels(resources),
        namespaced=resources.get("namespaced") is not False,
    )


def _pattern(series: str, naming: Mapping[str, object], where: str, *, literal: bool) -> str:
    """The pattern of the rule's metric names: the series as the rule renames it, or the series itself."""
    try:
        matches, renamed = str(naming.get("matches") or ""), str(naming.get("as") or "")
        if literal and matches:
            fits = re.search(matches[:_LONGEST], series)
            if fits is None:
                return re.escape(series)
            # prometheus-adapter's own default: the first group if the pattern has one, else the whole match.
            as_text = renamed or ("$1" if fits.groups() else "$0")
            return re.escape(_GROUP.sub(lambda group: fits[int(group[1])] or "", as_text))
        if renamed:
            return ".*".join(re.escape(part) for part in re.split(r"\$\{?\d+\}?", renamed))
        if not literal:
            # The rule is for all series whose name matches this pattern, and their names are the metrics' names.
            re.compile(series)
            return series
    except (re.error, IndexError) as error:
        raise ValueError(f"{where}: '{naming.get('matches') or series}' is no pattern that fits its name: {error}") from error
    return re.escape(series)


def _template(text: str, where: str) -> str:
    """The template without the grouping at its end. Raises ValueError for a placeholder that we cannot fill."""
    # A load is one series, so that a grouping by pod would only split it.
    cut = _GROUPING.sub("", text)
    if not cut.strip():
        raise ValueError(f"{where} has no query")
    unknown = [place for place in _PLACE.findall(cut) if place not in ("Series", "LabelMatchers")]
    if unknown:
        raise ValueError(f"{where}: '<<.{unknown[0]}>>' cannot be filled in here; there are <<.Series>> and <<.LabelMatchers>>")
    return cut


def _labels(resources: Mapping[str, object]) -> dict[str, str]:
    """The labels that hold a resource, by the resource's name."""
    overrides = _mapping(resources.get("overrides"))
    return {str(_mapping(override).get("resource")): str(label) for label, override in overrides.items()}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
