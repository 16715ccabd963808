"""Reads Kubernetes' placement rules into shapes: affinity, tolerations, spread, ports and selectors of a spec.

Objects come from strangers, so rules that are too large or invalid are refused with a sentence (`Unreadable`), and a pod with
such a rule becomes a shape that no node can take; the scheduler refuses such pods, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from agents.logic.nodes.scheduling.pod_shapes import (
    EVERY_ADDRESS,
    AffinityTerm,
    Audience,
    HostPort,
    NodeTerm,
    Toleration,
    TopologySpread,
)
from agents.logic.nodes.scheduling.scheduling_selectors import (
    EVERYTHING,
    NOTHING,
    LabelOperator,
    LabelRequirement,
    SchedulingSelector,
    SelectorError,
    label_selector,
    requirement,
)
from schemas.well_known_labels import NODE_NAME_FIELD

MOST_TERMS = 512
"""Affinity terms, spread constraints, tolerations or ports of one pod, each. A pod with more is refused."""
MOST_EXPRESSIONS = 512
"""Expressions of one selector, and values of one expression."""
MOST_PORT = 65535
# Kubernetes takes no other operators on the name of a node.
_NAMING = {"In": LabelOperator.IN, "NotIn": LabelOperator.NOT_IN}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

JsonMapping = Mapping[str, object]


class Unreadable(ValueError):
    """A fragment of an object that cannot be read; the message says which and why."""


@dataclass(frozen=True, slots=True)
class RuleOwner:
    """The pod that a rule belongs to: its namespace and labels, which some rules take over."""

    namespace: str
    labels: Mapping[str, str]


def mapping(value: object, where: str) -> JsonMapping:
    """An object; absent is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable(f"{where} is no object")
    return cast("JsonMapping", value)


def sequence(value: object, where: str, most: int = MOST_TERMS) -> list[object]:
    """A list of limited length; absent is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise Unreadable(f"{where} is no list")
    if len(value) > most:
        raise Unreadable(f"{where} has {len(value)} entries; more than {most} are refused")
    return list(value)


def text(value: object, where: str) -> str:
    """A text; absent is the empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"{where} is no text")
    return value


def texts(value: object, where: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(text(entry, where) for entry in sequence(value, where, MOST_EXPRESSIONS))


def whole(value: object, where: str, default: int) -> int:
    """A whole number."""
    if value is None:
        return default
    # In Python a bool is an int.
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable(f"{where} is no whole number")
    return value


def labels(value: object, where: str) -> dict[str, str]:
    """Labels, or anything else that maps text to text."""
    return {key: text(entry, where) for key, entry in mapping(value, where).items()}


def selector(value: object, where: str = "the selector") -> SchedulingSelector:
    """A label selector. Absent takes nothing, empty takes everything, as LabelSelectorAsSelector in apimachinery has it."""
    if value is None:
        return NOTHING
    body = mapping(value, where)
    listed = [mapping(entry, where) for entry in sequence(body.get("matchExpressions"), where, MOST_EXPRESSIONS)]
    expressions = tuple(
        (text(e.get("key"), where), text(e.get("operator"), where), texts(e.get("values"), where)) for e in listed
    )
    try:
        return label_selector(labels(body.get("matchLabels"), where), expressions) if body else EVERYTHING
    except SelectorError as error:
        raise Unreadable(f"{where}: {error}") from error


def tolerations(value: object) -> tuple[Toleration, ...]:
    """The tolerations of a pod."""
    listed = [mapping(entry, "a toleration") for entry in sequence(value, "the tolerations")]
    fields = ("key", "operator", "value", "effect")
    return tuple(Toleration(*(text(entry.get(field), "a toleration") for field in fields)) for entry in listed)


def ports(value: object) -> tuple[HostPort, ...]:
    """Host ports from entries with 'port', 'protocol' and 'host_ip'; a port of 0 takes nothing."""
    taken: set[HostPort] = set()
    for entry in sequence(value, "the host ports"):
        port = mapping(entry, "a host port")
        number = whole(port.get("port"), "a host port", 0)
        if number > MOST_PORT:
            raise Unreadable(f"{number} is no port")
        if number > 0:
            address = text(port.get("host_ip"), "a host port") or EVERY_ADDRESS
            taken.add(HostPort(number, text(port.get("protocol"), "a host port") or "TCP", address))
    return tuple(sorted(taken))


def node_terms(affinity: object) -> tuple[NodeTerm, ...] | None:
    """The required node affinity of a pod's affinity, or None if there is none.

    Source: k8s.io/component-helpers, scheduling/corev1/nodeaffinity.
    """
    rule = mapping(mapping(affinity, "the affinity").get("nodeAffinity"), "the node affinity").get(REQUIRED)
    if rule is None:
        return None
    terms = sequence(mapping(rule, "the node affinity").get("nodeSelectorTerms"), "the node affinity")
    return tuple(_node_term(mapping(term, "a node selector term")) for term in terms)


def _node_term(term: JsonMapping) -> NodeTerm:
    expressions = sequence(term.get("matchExpressions"), "a node selector term", MOST_EXPRESSIONS)
    fields = [mapping(entry, "a field") for entry in sequence(term.get("matchFields"), "a node selector term", MOST_EXPRESSIONS)]
    names = tuple(_name(field) for field in fields if field.get("key") == NODE_NAME_FIELD and field.get("operator") in _NAMING)
    valid = len(names) == len(fields) and all(len(name.values) == 1 for name in names)
    try:
        return NodeTerm(tuple(map(_expression, expressions)), names, invalid=not valid)
    except SelectorError:
        # A term that is invalid takes no node, but the others still may: the scheduler ORs them.
        return NodeTerm((), names, invalid=True)


def _expression(value: object) -> LabelRequirement:
    expression = mapping(value, "an expression")
    where = "an expression"
    return requirement(
        text(expression.get("key"), where), text(expression.get("operator"), where), texts(expression.get("values"), where)
    )


def _name(field: JsonMapping) -> LabelRequirement:
    """A demand on the node's name, which is valid with exactly one value."""
    return LabelRequirement(
        NODE_NAME_FIELD, _NAMING[text(field["operator"], "a field")], frozenset(texts(field.get("values"), "a field"))
    )


def pod_terms(affinity: object, kind: str, whose: RuleOwner) -> tuple[AffinityTerm, ...]:
    """The required terms between pods; `kind` is 'podAffinity' or 'podAntiAffinity'."""
    where = "the affinity between pods"
    terms = sequence(mapping(mapping(affinity, where).get(kind), where).get(REQUIRED), where)
    return tuple(_pod_term(mapping(term, where), whose) for term in terms)


def _pod_term(term: JsonMapping, whose: RuleOwner) -> AffinityTerm:
    where = "a term between pods"
    named = texts(term.get("namespaces"), where)
    by_labels = selector(term.get("namespaceSelector"), where)
    if not named and by_labels.nothing:
        # A term that names no namespaces means those of its own pod, as in Kubernetes.
        named = (whose.namespace,)
    key = text(term.get("topologyKey"), where)
    if not key:
        raise Unreadable("a term between pods names no topology key")
    return AffinityTerm(Audience(selector(term.get("labelSelector"), where), frozenset(named), by_labels), key)


def spread(value: object, whose: RuleOwner) -> tuple[TopologySpread, ...]:
    """The topology spread constraints of a pod; the values of matchLabelKeys are taken from the pod's own labels."""
    return tuple(_spread(mapping(entry, "a spread constraint"), whose) for entry in sequence(value, "the spread constraints"))


def _spread(rule: JsonMapping, whose: RuleOwner) -> TopologySpread:
    where = "a spread constraint"
    chosen = selector(rule.get("labelSelector"), where)
    own = {key: whose.labels[key] for key in texts(rule.get("matchLabelKeys"), where) if key in whose.labels}
    if own:
        # Without a selector, which would take nobody, the labels alone decide.
        chosen = SchedulingSelector((*chosen.requirements, *selector({"matchLabels": own}, where).requirements))
    return TopologySpread(
        key=text(rule.get("topologyKey"), where),
        max_skew=whole(rule.get("maxSkew"), where, 1),
        selector=chosen,
        min_domains=whole(rule.get("minDomains"), where, 1),
        # Kubernetes' defaults: affinity counts, taints do not.
        honor_affinity=rule.get("nodeAffinityPolicy") in (None, "Honor"),
        honor_taints=rule.get("nodeTaintsPolicy") == "Honor",
        required=rule.get("whenUnsatisfiable") in (None, "", "DoNotSchedule"),
    )


def amounts(values: Iterable[tuple[str, object]], most: int) -> tuple[tuple[str, int], ...]:
    """Requests or capacities as sorted pairs without zeros. A negative amount is refused."""
    kept: dict[str, int] = {}
    for name, value in values:
        number = whole(value, f"the amount of '{name[:80]}'", 0)
        if number < 0:
            raise Unreadable(f"the amount of '{name[:80]}' is {number}, which is negative")
        if number:
            # Cut, so that sums over thousands of pods fit into 64 bits.
            kept[name] = min(number, most)
    return tuple(sorted(kept.items()))
