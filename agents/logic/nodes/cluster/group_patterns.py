"""How the next node of a group will look, learned from the nodes that came.

What a cloud promises, a node need not keep: labels that its kubelet never set, a smaller type of a mixed group, memory that its
system keeps. So the newest node of a group is its pattern, also once it is gone: else what did not help would be bought again. A
group that never had a node is described by its cloud, with amounts of nodes of its type in other groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from agents.logic.guards.shared_guards import doubled
from agents.logic.nodes.aws import node_templates
from agents.logic.nodes.cluster import fact_conversion
from agents.logic.nodes.cluster.fact_conversion import TransientTaints
from agents.logic.nodes.cluster.scaler_table_values import KnownNode, LearnedPattern
from agents.logic.nodes.growth.node_estimator import GroupTemplate
from agents.logic.nodes.scheduling.node_columns import tolerates
from agents.logic.nodes.scheduling.pod_shapes import (
    PodNature,
    PodShape,
    SchedulingNode,
    TaintEffect,
    Toleration,
    is_kubelets,
    pairs,
)
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.scheduler_filters import FilterFailure
from schemas import times, units
from schemas.facts.nodes import NodeDetailsChanged, NodeGroupSeen, NodeInstanceSeen, NodeTemplateSeen
from schemas.facts.scheduled_pods import PodShapeSeen
from schemas.pod_requests import CPU, EPHEMERAL, MEMORY, PODS
from schemas.well_known_labels import HOSTNAME, INSTANCE_TYPE

CORE = frozenset((CPU, MEMORY, EPHEMERAL, PODS))
"""What a kubelet reports from its first moment; everything else may come later, from a plugin of the device."""
_LEGACY = {
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
    "kubernetes.io/os": "beta.kubernetes.io/os",
    INSTANCE_TYPE: "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
"""Labels under which kubelets and cloud controllers say the same once more."""
_PROXY = PodShape("kube-system", requests=((CPU, node_templates.KUBE_PROXY_CPU),))
PROXY_NAME = "kube-proxy"
MOST_DIFFERENCES = 5
_FIRST_TRIAL, _LAST_TRIAL = 6 * 3600.0, 86_400.0
"""Seconds after which a cloud is believed once more, and the longest such time; it doubles each time that this was in vain."""
SETTLED = 900.0
"""Seconds in which a new node gets what all nodes of its group get: labels, taints and pods of agents, and its devices."""


# Completeness


def promised(fact: NodeGroupSeen, known: LearnedPattern | None) -> frozenset[str]:
    """The resources of devices that a new node of a group is to have."""
    sources = fact.template, None if known is None else known.node
    offered = (item for source in sources if source is not None for item in source.allocatable.items())
    return frozenset(name for name, amount in offered if amount > 0 and name not in CORE)


def incomplete(node: NodeDetailsChanged, resources: frozenset[str]) -> bool:
    """Whether a node lacks a device that nodes of its group have."""
    return any(not node.allocatable.get(name, 0) for name in resources)


def learn(
    fact: NodeGroupSeen,
    known: LearnedPattern | None,
    newest: tuple[KnownNode, NodeInstanceSeen] | None,
    pods: Sequence[PodShapeSeen],
    *,
    served: bool = False,
) -> LearnedPattern | None:
    """What is known of a group now. `newest` is its newest node in good order, and `pods` those that belong to that node.

    `served`: that node has, or could have, taken pods for some time.
    """
    # Once the group starts its nodes from something else, what was learned is void.
    valid = known is not None and (fact.launch_version, fact.template) == (known.launch_version, known.template)
    if newest is None:
        return known if valid else None
    node, instance = newest[0].fact, newest[1]
    # A node that is older than the one that was learned from teaches nothing.
    if known is not None and valid and _age(known.node) > _age(node):
        return known
    # The same node once more: a device that its plugin has lost for now is not taken for one that new nodes lack.
    again = known is not None and valid and known.node.node == node.node
    if again and known is not None:
        had, has = known.node.allocatable, node.allocatable
        lost = {name: n for name, n in had.items() if name not in CORE and n and not has.get(name)}
        node = replace(node, allocatable={**node.allocatable, **lost})
        # What a node gets or loses later is its own, such as a taint by which somebody takes it out of service. Taken for its
        # group's nature, it would keep the group from growing for ever.
        if served:
            node = _as_it_came(node, known.node)
    kept = replace(node, conditions={}, annotations={}, at=node.created)
    old = drifted(fact, instance)
    pattern = LearnedPattern(kept, instance.instance_type, fact.launch_version, fact.template, tuple(pods), drifted=old)
    if known is None or not valid:
        return replace(pattern, expected=fact.template)
    if again:
        return replace(pattern, expected=known.expected, vain=known.vain)
    return replace(
        pattern, expected=_as_template(known.node), vain=known.vain + known.trusted if _breaks_its_word(pattern) else 0
    )


def trusting(known: LearnedPattern, now: float) -> LearnedPattern:
    """What is known of a group without a node; its cloud is believed once more, long after a node broke its word."""
    # What made that node so, such as a start script, may be mended by now, and nothing else would ever show it.
    pause = doubled(_FIRST_TRIAL, known.vain + 1, longest=_LAST_TRIAL)
    due = _breaks_its_word(known) and now - times.to_seconds(known.node.created) >= pause
    return known if known.trusted is due else replace(known, trusted=due)


def _breaks_its_word(known: LearnedPattern) -> bool:
    """Whether a node lacks a label that its cloud promises, or has a taint of which that says nothing."""
    # A label of another value tells nodes of one group apart, such as its zone.
    node, promise = known.node, known.template or NodeTemplateSeen(known.node.labels, known.node.taints, {}, {})
    return bool(promise.labels.keys() - node.labels.keys() - {HOSTNAME} or {*node.taints} - {*promise.taints})


def _as_it_came(node: NodeDetailsChanged, before: NodeDetailsChanged) -> NodeDetailsChanged:
    """A node without the taints that are new, and with the labels and amounts that it had before."""
    taints = tuple(taint for taint in node.taints if taint in before.taints)
    core = {name: max(n, node.allocatable.get(name, 0)) for name, n in before.allocatable.items() if name in CORE}
    return replace(node, taints=taints, labels={**node.labels, **before.labels}, allocatable={**node.allocatable, **core})


def drifted(group: NodeGroupSeen, instance: NodeInstanceSeen) -> bool:
    """Whether a new instance of the group would be started from another version of a launch template than this one was."""
    # A type of a mixed group may have a template of its own.
    current = {group.launch_version, *group.own_versions}
    versions = *current, instance.launch_version
    # A version that is no number, such as `$Latest`, cannot be compared.
    numbered = all(":" in version and version.rpartition(":")[2].isdecimal() for version in versions)
    return instance.launch_version not in current and numbered


def _age(node: NodeDetailsChanged) -> tuple[object, str]:
    return node.created, node.node


def _as_template(node: NodeDetailsChanged) -> NodeTemplateSeen:
    return NodeTemplateSeen(node.labels, node.taints, node.capacity, node.allocatable)


def differences(known: LearnedPattern) -> Iterator[str]:
    """How the node that came differs from what was expected before it came, a sentence each."""
    expected, node = known.expected, known.node
    if expected is None:
        return
    for name, amount in sorted(expected.allocatable.items()):
        offered = node.allocatable.get(name, 0)
        if offered < amount:
            yield f"its {amount_text(name, offered)} of {name} are fewer than the {amount_text(name, amount)} that were expected"
    for key, value in sorted(expected.labels.items()):
        if key != HOSTNAME and node.labels.get(key) != value:
            yield f"it has no label '{key}={value}'"
    for taint in node.taints:
        if taint not in expected.taints and taint.effect in ("NoSchedule", "NoExecute"):
            yield f"it has the taint '{taint.key}'"


def amount_text(name: str, amount: int) -> str:
    """An amount of a resource for people."""
    # The scheduler's amounts, in which CPU is in thousandths.
    return units.amount_text(name, amount / 1000 if name == CPU else amount)


# Patterns


class GroupPatterns:
    """The patterns of one cluster's groups, by what is known of all of them together."""

    def __init__(
        self,
        learned: Mapping[str, LearnedPattern],
        daemons: Sequence[PodNature],
        passing: TransientTaints,
        *,
        controllers: frozenset[str],
        plain: bool = False,
    ) -> None:
        """`daemons`: a nature for each DaemonSet that is known; `controllers`: `namespace/name` of each DaemonSet that exists.

        `plain`: as upstream does it, a cloud's template is taken as it is, and a kube-proxy is added to it.
        """
        self._learned, self._daemons, self._passing, self._controllers = learned, daemons, passing, controllers
        self._named = set(map(daemon_name, daemons))
        self._shapes: dict[str, PodShape] = {}
        self._types = {} if plain else self._by_type()
        self._everywhere = [_PROXY] if plain else self._on_every_node()
        self._plain = plain

    def of(self, fact: NodeGroupSeen) -> GroupTemplate | None:
        """How a new node of a group looks, with the pods that it runs from its beginning."""
        known = self._learned.get(fact.group)
        if known is not None:
            node = self._next(fact, known)
            own = [self._shape(pod) for pod in known.pods if self._remains(pod)]
            return GroupTemplate(node, (*self._running(node), *own), known.node.node)
        if fact.template is None:
            return None
        node = self._sized(fact_conversion.template(fact.group, fact.template, self._passing), fact)
        return GroupTemplate(node, (*self._running(node), *self._everywhere))

    def _next(self, fact: NodeGroupSeen, known: LearnedPattern) -> SchedulingNode:
        """A new node, like the newest one."""
        node = fact_conversion.like(known.node, self._passing)
        if not (known.drifted or known.trusted) or fact.template is None:
            return node
        # Where the newest node was started from another version than the next one, too, the cloud is believed once more.
        new = self._sized(fact_conversion.template(fact.group, fact.template, self._passing), fact)
        if not known.drifted:
            return replace(node, labels=pairs({**dict(new.labels), **dict(node.labels)}), taints=new.taints)
        labels = {**dict(node.labels), **{key: value for key, value in new.labels if key != HOSTNAME}}
        merged = replace(node, labels=pairs(labels))
        if labels.get(INSTANCE_TYPE) == known.node.labels.get(INSTANCE_TYPE):
            return merged
        return replace(merged, allocatable=new.allocatable, capacity=new.capacity)

    def _running(self, node: SchedulingNode) -> list[PodShape]:
        return [nature.shape for nature in self._daemons if runs_daemonset(nature.shape, node)[0]]

    def _remains(self, pod: PodShapeSeen) -> bool:
        """Whether a new node runs such a pod, too, that is not counted among the known DaemonSets."""
        if pod.owner is None or pod.owner.kind != "DaemonSet":
            return True
        name = f"{pod.namespace}/{pod.owner.name}"
        return name not in self._named and name in self._controllers

    def _shape(self, pod: PodShapeSeen) -> PodShape:
        # The same object for the same shape, because groups of one kind are found by their pods' identity.
        if pod.shape not in self._shapes:
            self._shapes[pod.shape] = fact_conversion.nature(pod).shape
        return self._shapes[pod.shape]

    def _by_type(self) -> dict[str, NodeDetailsChanged]:
        """For each type of instance the newest node that is known of it."""
        newest: dict[str, NodeDetailsChanged] = {}
        for pattern in sorted(self._learned.values(), key=lambda known: _age(known.node)):
            newest[pattern.node.labels.get(INSTANCE_TYPE, pattern.instance_type)] = pattern.node
        newest.pop("", None)
        return newest

    def _sized(self, node: SchedulingNode, fact: NodeGroupSeen) -> SchedulingNode:
        """A cloud's template with the labels that kubelets add, and with the amounts of a real node of its type."""
        if self._plain:
            return node
        labels = dict(node.labels)
        labels = {**{old: labels[new] for new, old in _LEGACY.items() if new in labels}, **labels}
        kind = labels.get(INSTANCE_TYPE) or (fact.instance_types[0] if fact.instance_types else "")
        real = self._types.get(kind)
        if real is None:
            return replace(node, labels=pairs(labels))
        # A device that only the template names is promised, and stays.
        devices = {name: n for name, n in node.allocatable.items() if n and name not in CORE}
        return replace(
            node,
            labels=pairs(labels),
            allocatable={**_without_devices(real.allocatable), **devices},
            capacity={**_without_devices(real.capacity or real.allocatable), **devices},
        )

    def _on_every_node(self) -> list[PodShape]:
        """Static pods that run on each node that is known; without any such node kube-proxy, unless it is a DaemonSet."""
        own = [{pod.shape: pod for pod in known.pods if is_kubelets(pod.annotations)} for known in self._learned.values()]
        if own:
            common = set.intersection(*map(set, own))
            return [self._shape(own[0][name]) for name in sorted(common)]
        names = {name.rpartition("/")[2] for name in (*self._named, *self._controllers)}
        return [] if any(name.startswith(PROXY_NAME) for name in names) else [_PROXY]


def own_pods(shapes: Sequence[PodShapeSeen]) -> list[PodShapeSeen]:
    """Of the shapes of a node's pods those that belong to the node: static ones and those of DaemonSets, one for each pod."""
    return [pod for pod in shapes if is_kubelets(pod.annotations) or (pod.owner is not None and pod.owner.kind == "DaemonSet")]


def _without_devices(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in amounts.items() if name in CORE or name.startswith("hugepages-") or not n}


def daemon_name(nature: PodNature) -> str:
    """The namespace and name of the DaemonSet of such pods."""
    owner = nature.owners[0].name if nature.owners else ""
    return f"{nature.shape.namespace}/{owner}"


# Which DaemonSets put a pod on a node.


_ALWAYS = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", "", effect)
    for name, effect in (
        ("not-ready", TaintEffect.NO_EXECUTE),
        ("unreachable", TaintEffect.NO_EXECUTE),
        ("disk-pressure", TaintEffect.NO_SCHEDULE),
        ("memory-pressure", TaintEffect.NO_SCHEDULE),
        ("pid-pressure", TaintEffect.NO_SCHEDULE),
        ("unschedulable", TaintEffect.NO_SCHEDULE),
    )
)
"""What the DaemonSet controller adds to each of its pods."""


def runs_daemonset(template: PodShape, node: SchedulingNode) -> tuple[bool, bool]:
    """Whether a DaemonSet with this pod template starts a pod on a node, and whether one that runs there may stay.

    Only the node's name, its labels and its taints matter; resources do not.
    Source: NodeShouldRunDaemonPod in Kubernetes' pkg/controller/daemon.
    """
    # A cluster of one node: the filters work on columns, and there is no second form of them.
    picture = ScheduledCluster()
    picture.add(node)
    here, named = slice(0, 1), template.node_name in ("", node.name)
    if not named or not np.all(picture.columns.selected(template.node_selector, template.node_terms, here)):
        return False, False
    tolerations = (*template.tolerations, *_ALWAYS)
    if tolerates(tolerations, node.taints):
        return True, True
    driven = [taint for taint in node.taints if taint.effect == TaintEffect.NO_EXECUTE]
    return False, tolerates(tolerations, driven)


# What keeps waiting pods off a new node of a group, in a sentence that names the node that taught it.

MOST_LACKING = 3
"""Things that one sentence says a node lacks."""


def lacking(template: GroupTemplate | None, learned: LearnedPattern | None, shape: PodShape, failure: FilterFailure) -> str:
    """What a new node of a group lacks, and how the node that taught it differed from what was expected."""
    if template is None:
        return ", ".join(failure.reasons)
    sentence, differs = (
        what_it_lacks(template, shape, failure),
        [*islice(differences(learned), MOST_DIFFERENCES)] if learned else [],
    )
    return f"{sentence} ({'; '.join(differs)})" if differs else sentence


def what_it_lacks(template: GroupTemplate, shape: PodShape, failure: FilterFailure) -> str:
    """What a new node of the group lacks for such a pod."""
    who = f"node '{template.like}'" if template.like else "a new node"
    lacks = list(_lacks(template, shape, failure))[:MOST_LACKING] or [f"does not take them: {', '.join(failure.reasons)}"]
    return f"{who} {' and '.join(lacks)}"


def _lacks(template: GroupTemplate, shape: PodShape, failure: FilterFailure) -> Iterator[str]:
    match failure.plugin:
        case "NodeAffinity":
            yield from _labels(template, shape)
        case "NodeResourcesFit":
            yield from _amounts(template, shape)
        case "TaintToleration":
            untolerated = [taint for taint in template.node.taints if not tolerates(shape.tolerations, (taint,))]
            yield from (f"has the taint '{taint.key}={taint.value}:{taint.effect}'" for taint in untolerated)
        case "VolumeBinding":
            yield "lies where the pods' volumes cannot be"
        # The words of any other filter say enough by themselves.
        case _:
            pass


def _labels(template: GroupTemplate, shape: PodShape) -> Iterator[str]:
    labels = dict(template.node.labels)
    for key, value in (wrong := [(key, value) for key, value in shape.node_selector if labels.get(key) != value]):
        here = f", but '{key}={labels[key]}'" if key in labels else ""
        yield f"has no label '{key}={value}'{here}"
    if not wrong:
        unmet = [
            expression.key
            for term in shape.node_terms or ()
            for expression in term.expressions
            if not expression.accepts(labels.get(expression.key))
        ]
        named = ", ".join(f"'{key}'" for key in dict.fromkeys(unmet))
        where = f"lies where the pods may not run: their node affinity asks for other values of {named}"
        yield where if named else "meets no term of the pods' node affinity"


def _amounts(template: GroupTemplate, shape: PodShape) -> Iterator[str]:
    # Each pod takes one of the node's places for pods, too.
    for name, wanted in (*shape.requests, (PODS, 1)):
        offered = template.node.allocatable.get(name, 0)
        taken = len(template.pods) if name == PODS else sum(pod.request(name) for pod in template.pods)
        if wanted > offered - taken:
            own = f", of which its own pods take {amount_text(name, taken)}" if taken else ""
            yield f"has {amount_text(name, offered)} {name}{own}, and each of the pods asks for {amount_text(name, wanted)}"
