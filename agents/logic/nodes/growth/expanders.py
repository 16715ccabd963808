"""Which group should grow when several could: filters keep the best options, and chance decides among the rest.

Chance is a number from the caller, so that the choice can be repeated.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode
from agents.logic.nodes.scheduling.scheduling_selectors import integer
from schemas.pod_requests import CPU, MEMORY

# The priority expander's configuration: which groups go first, by patterns on their names.
# The patterns come from a ConfigMap and are matched against the names of groups. They must be valid for Go's engine, and must not
# keep Python's engine busy for ever.

MOST_PATTERNS = 10_000
LONGEST_PATTERN = 512
MOST_REPETITIONS = 2
"""Repetitions of any kind in one pattern, without one of anything at its end, which costs nothing."""
MOST_CHOICES = 256
"""Ways through the choices of a pattern's groups."""

_LARGEST = 2**63


class PrioritiesError(ValueError):
    """A configuration that cannot be used; upstream then lets every option pass."""


@dataclass(frozen=True, slots=True)
class Priorities:
    """Patterns by priority; the highest that matches a group counts."""

    patterns: Mapping[int, tuple[re.Pattern[str], ...]]

    def of(self, group: str) -> int | None:
        """The priority of a group, or None if no pattern matches its name."""
        return max((prio for prio, patterns in self.patterns.items() if any(p.search(group) for p in patterns)), default=None)


def read_priorities(document: object) -> Priorities:
    """The configuration from its YAML as a document of maps and lists; raises PrioritiesError.

    Keys are integers (also as text), values lists of patterns. Source: parsePrioritiesYAMLString in
    expander/priority/priority.go.
    """
    if document is None:
        return Priorities({})
    if not isinstance(document, dict):
        raise PrioritiesError("the priorities are no map")
    if sum(len(listed) for listed in document.values() if isinstance(listed, list)) > MOST_PATTERNS:
        raise PrioritiesError(f"more than {MOST_PATTERNS} patterns are refused")
    return Priorities({_priority(key): _patterns(listed) for key, listed in document.items()})


def _priority(key: object) -> int:
    number = integer(key) if isinstance(key, str) else key
    if not isinstance(number, int) or isinstance(number, bool) or not -_LARGEST <= number < _LARGEST:
        raise PrioritiesError(f"'{str(key)[:80]}' is no integer")
    return number


def _patterns(listed: object) -> tuple[re.Pattern[str], ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise PrioritiesError("the patterns of a priority are no list")
    return tuple(pattern(_text(item)) for item in listed)


def _text(item: object) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str | int | float):
        return str(item)
    raise PrioritiesError("a pattern is no text")


def pattern(text: str) -> re.Pattern[str]:
    """A pattern that both engines accept and that matches in reasonable time; raises PrioritiesError."""
    if len(text) > LONGEST_PATTERN:
        raise PrioritiesError(f"a pattern of {len(text)} characters is refused; {LONGEST_PATTERN} are the most")
    # Without escapes and classes, in which the signs below mean themselves.
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", text, flags=re.DOTALL)
    if re.search(r"\(\?(?![imsU:-]|P?<[A-Za-z_])|\(\?P?<[=!]|\(\?P=", plain) or re.search(r"\\[1-9]", text):
        raise PrioritiesError(f"'{text}' uses what Go's patterns do not have")
    repetitions = re.findall(r"(?<!\()[*+?{]\??", plain.removesuffix(".*"))
    # Go's engine takes a time in proportion to the text. Python's tries all ways, of which these make exponentially many.
    if len(repetitions) > MOST_REPETITIONS or _choices(plain) > MOST_CHOICES or _repeats_a_choice(plain):
        raise PrioritiesError(f"'{text}' could take for ever to match")
    try:
        # Go takes both forms of a named group.
        return re.compile(text.replace("(?<", "(?P<"))
    except (re.error, OverflowError, RecursionError) as error:
        raise PrioritiesError(f"'{text}' is no pattern: {error}") from error


def _choices(plain: str) -> int:
    """In how many ways a text can pass through the groups with alternatives."""
    ways, open_groups = 1, [0]
    for letter in plain:
        if letter == "(":
            open_groups.append(1)
        elif letter == "|":
            open_groups[-1] += 1
        elif letter == ")" and len(open_groups) > 1:
            ways *= open_groups.pop()
    return ways


def _repeats_a_choice(plain: str) -> bool:
    """Whether a group that repeats or chooses inside is itself repeated without bound."""
    open_groups = [False]
    for place, letter in enumerate(plain):
        if letter == "(":
            open_groups.append(False)
        elif letter in "*+|{":
            open_groups[-1] = True
        elif letter == ")" and len(open_groups) > 1:
            inner = open_groups.pop()
            if inner and plain[place + 1 : place + 2] in ("*", "+", "{"):
                return True
            open_groups[-1] = open_groups[-1] or inner
    return False


FAILED = "ExpanderFailed"
NOT_MATCHED = "PriorityConfigMapNotMatchedGroup"
NONE_MATCHED = "PriorityConfigMapNoGroupMatched"
INVALID = "PriorityConfigMapInvalid"
ABOUT_PRIORITIES = frozenset((NOT_MATCHED, NONE_MATCHED, INVALID))

GIB = 2**30
# Added to both sides of a price ratio, so that tiny pods do not make it jump.
STABLE_CPU, STABLE_MEMORY = 500, 500 * 2**20
"""What an imagined pod asks for, in thousandths of a core and bytes."""
# Source: SimplePreferredNodeProvider in expander/price/preferred.go.
PREFERRED = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
"""The cores of the node that suits a cluster of up to so many nodes; larger clusters suit `PREFERRED_BEYOND`."""
PREFERRED_BEYOND = 32
# Upstream's: a node with GPUs is bought for its CPU only where nothing else is to be had.
GPU_UNFITNESS = 1000.0
FREE_PODS = 0.01
"""The price of pods that ask for nothing."""


class ExpanderError(ValueError):
    """An invalid chain of expanders; the message is upstream's."""


class Expander(StrEnum):
    """A way to choose."""

    RANDOM = "random"
    MOST_PODS = "most-pods"
    LEAST_WASTE = "least-waste"
    LEAST_NODES = "least-nodes"
    PRIORITY = "priority"
    PRICE = "price"
    GRPC = "grpc"
    """Somebody else's program chooses, over upstream's protocol. A decision only uses what it answered to an earlier one."""


@dataclass(frozen=True, slots=True)
class ExpanderOption:
    """A group, how many nodes it would add, and what the pods that would run on them ask for altogether."""

    group: str
    nodes: int
    template: SchedulingNode
    pods: int
    cpu: int
    memory: int
    gpu: bool = False
    similar: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of an hour: of a node of each group, of a core, and of a GiB."""

    nodes: Mapping[str, float]
    core: float
    gib: float

    def of_pods(self, cpu: int, memory: int) -> float:
        """The price of such requests; CPU in thousandths, memory in bytes."""
        return cpu / 1000 * self.core + memory / GIB * self.gib


@dataclass(frozen=True, slots=True)
class ExpanderAnswer:
    """What an external expander answered when it was asked about the groups `asked`: those to keep, or why it did not answer."""

    asked: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ExpanderContext:
    """What the expanders may know besides the options. `priorities` is None if there are none, or none that can be read."""

    priorities: Priorities | None = None
    prices: Prices | None = None
    cluster_nodes: int = 0
    seed: int = 0
    answer: ExpanderAnswer | None = None

    @property
    def after_choice(self) -> "ExpanderContext":
        """What is known for a further choice of one decision: an answer serves one choice, and a failure all of them."""
        return self if self.answer is None or self.answer.failed else replace(self, answer=None)


@dataclass(slots=True)
class ExpanderChoice:
    """The choice, the options that were equally good, and the events to record (reason and group).

    `ask`: options among which an external expander must choose first; then there is no choice yet.
    """

    best: ExpanderOption | None = None
    ask: tuple[ExpanderOption, ...] = ()
    equals: tuple[ExpanderOption, ...] = ()
    events: list[tuple[str, str]] = field(default_factory=list)


def chain(names: Sequence[str]) -> tuple[Expander, ...]:
    """A chain of expanders by their names; raises ExpanderError. Source: ExpanderStrategyFromStrings in expander/factory."""
    seen: list[str] = []
    for name in names:
        if name in seen:
            often = "each expander must not be specified more than once"
            raise ExpanderError(f"Expander {name} was specified multiple times, {often}")
        if Expander.RANDOM in seen:
            never = f"this is not allowed since {name} will never be used"
            raise ExpanderError(f"Expander {name} came after an expander random that will always return only one result, {never}")
        if name not in frozenset(Expander):
            raise ExpanderError(f"Expander {name} not supported")
        seen.append(name)
    return tuple(Expander(name) for name in seen)


def choose(expanders: Sequence[Expander], options: Sequence[ExpanderOption], around: ExpanderContext) -> ExpanderChoice:
    """Filter the options until one is left; chance decides among those that no expander told apart.

    Source: chainStrategy in expander/factory/chain.go.
    """
    choice = ExpanderChoice()
    left = list(options)
    for expander in expanders:
        if expander is Expander.RANDOM:
            break
        if expander is Expander.GRPC and len(left) > 1 and not _answered(left, around.answer):
            choice.ask = tuple(left)
            return choice
        left = keep(expander, left, around, choice.events)
        if len(left) == 1:
            break
    choice.equals = tuple(left)
    choice.best = left[draw(around.seed, len(left))] if left else None
    return choice


def keep(
    expander: Expander, options: list[ExpanderOption], around: ExpanderContext, events: list[tuple[str, str]]
) -> list[ExpanderOption]:
    """The options that one expander keeps."""
    if expander in _SCORES:
        return _lowest(options, [_SCORES[expander](option) for option in options])
    if expander is Expander.LEAST_NODES:
        some = [option for option in options if option.nodes > 0]
        least = min((option.nodes for option in some), default=0)
        return [option for option in some if option.nodes == least]
    if expander is Expander.PRICE:
        return _cheapest(options, around)
    if expander is Expander.GRPC:
        return _chosen(options, around.answer, events)
    return _first(options, around.priorities, events) if expander is Expander.PRIORITY else options


def _answered(options: Sequence[ExpanderOption], answer: ExpanderAnswer | None) -> bool:
    """Whether an external expander's answer is about these groups; that it fails concerns all."""
    return answer is not None and (bool(answer.failed) or answer.asked == {option.group for option in options})


def _chosen(options: list[ExpanderOption], answer: ExpanderAnswer | None, events: list[tuple[str, str]]) -> list[ExpanderOption]:
    """Those that an external expander keeps; all if it fails or keeps none. Source: grpcclientstrategy in expander/grpcplugin."""
    if answer is None:
        return options
    if answer.failed:
        events.append((FAILED, ""))
    # Unlike upstream's, a group that it left out gets no node by being like one that it keeps: it could tell them apart.
    left_out = answer.asked - answer.kept
    kept = [option for option in options if option.group in answer.kept]
    return [replace(option, similar=tuple(name for name in option.similar if name not in left_out)) for option in kept] or options


def draw(seed: int, count: int) -> int:
    """One of `count` places, each as likely as the others, and the same for the same seed."""
    # Not `random`, whose draws may change with Python's version: a replay has to choose the same.
    digest = hashlib.sha256(str(seed).encode()).digest()
    return int.from_bytes(digest[:8]) % count


def waste(option: ExpanderOption) -> float:
    """The share of the new nodes' CPU plus that of their memory that the pods leave idle.

    Source: leastwaste.BestOptions in expander/waste, which uses capacity.
    """
    cpu, memory = option.template.capacity.get(CPU, 0), option.template.capacity.get(MEMORY, 0)
    return _idle(cpu * option.nodes, option.cpu) + _idle(memory * option.nodes, option.memory)


def _idle(available: int, wanted: int) -> float:
    left = available - wanted
    if available:
        return left / available
    # Go's division by zero, of which Python makes an error.
    return math.nan if not left else math.copysign(math.inf, left)


_SCORES: Mapping[Expander, Callable[[ExpanderOption], float]] = {
    Expander.MOST_PODS: lambda option: -option.pods,
    Expander.LEAST_WASTE: waste,
}
"""The expanders that keep the options with the lowest score."""


def _lowest(options: list[ExpanderOption], scores: list[float]) -> list[ExpanderOption]:
    """The options with the lowest score."""
    # Not `min`: NaN is neither lower than nor equal to anything, and stays only if it is first, as upstream has it.
    kept: list[ExpanderOption] = []
    lowest = 0.0
    for option, score in zip(options, scores, strict=True):
        if not kept or score < lowest:
            lowest, kept = score, [option]
        elif score == lowest:
            kept.append(option)
    return kept


def _first(options: list[ExpanderOption], priorities: Priorities | None, events: list[tuple[str, str]]) -> list[ExpanderOption]:
    """Those with the highest priority. Source: priority.BestOptions in expander/priority."""
    if priorities is None or not options:
        return options
    prios = [priorities.of(option.group) for option in options]
    events += [(NOT_MATCHED, option.group) for option, prio in zip(options, prios, strict=True) if prio is None]
    # Upstream begins with -1, so that below it nothing ever matches.
    best = max((prio for prio in prios if prio is not None and prio >= -1), default=None)
    if best is None:
        events.append((NONE_MATCHED, ""))
        return options
    return [option for option, prio in zip(options, prios, strict=True) if prio == best]


def _cheapest(options: list[ExpanderOption], around: ExpanderContext) -> list[ExpanderOption]:
    """The options with the lowest price score. Source: priceBased.BestOptions in expander/price."""
    prices = around.prices
    if prices is None:
        return options
    # A group without a price is no option, as upstream has it.
    priced = [option for option in options if option.group in prices.nodes]
    return _lowest(priced, [price_score(option, prices, around.cluster_nodes) for option in priced])


def price_score(option: ExpanderOption, prices: Prices, cluster_nodes: int) -> float:
    """The nodes' cost over the pods' price, times how badly such a node suits a cluster of that size."""
    stable = prices.of_pods(STABLE_CPU, STABLE_MEMORY)
    worth = prices.of_pods(option.cpu, option.memory) or FREE_PODS
    spent = (prices.nodes[option.group] * option.nodes + stable) / (worth + stable)
    if option.gpu:
        return GPU_UNFITNESS * spent
    preferred = next((cores for most, cores in PREFERRED if cluster_nodes <= most), PREFERRED_BEYOND) * 1000
    cpu = max(option.template.capacity.get(CPU, 0), 1)
    unfitness = max(preferred / cpu, cpu / preferred)
    # Upstream: the more nodes are added, the less it matters whether one of them suits the cluster's size.
    return ((unfitness - 1) * (1 - math.tanh((option.nodes - 1) / 15)) + 1) * spent
