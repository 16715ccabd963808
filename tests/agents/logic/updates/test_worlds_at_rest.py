"""Random worlds of containers, LimitRanges, policies and HPAs, in which plans are carried out as the API server would do it.

New pods come from their template, get a LimitRange's defaults and the webhook's own patch. However a world is put together, each
plan changes what a pod requests, rests on targets within their bounds, and after a while there is nothing more to plan.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from agents.logic.admission import admission_report, pod_patch, pod_spec
from agents.logic.admission.admission_index import AdmissionIndex
from agents.logic.admission.admission_report import AdmissionAccount, ReviewStatus
from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas import admission_notes
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.update_facts import HpaTargetChanged
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues, UpdateMode, VerticalPolicyChanged
from schemas.well_known_labels import ADMISSION_NOTE, OBSERVED_CONTAINERS
from streams.clients.kube.quantities import read_amounts
from tests.support import admission_manifests
from tests.support.cluster_events import API, MINUTE, START, turn, when

Json = dict[str, Any]
NAMES = ("app", "side", "log")
MOST_PLANS = 12
"""Of one pod until nothing more is to be done: amounts that follow one another settle within a few steps."""


def maybe(values: Any) -> Any:
    return st.one_of(st.none(), values)


CPU = st.one_of(st.integers(1, 12).map(lambda cpu: 25 * cpu), st.integers(1, 4000))
MEMORY = st.one_of(st.integers(1, 12).map(lambda size: size * (50 << 20)), st.integers(1, 4 << 30))
"""Millicores and bytes; often round ones, so that bounds bind."""


@dataclass(frozen=True)
class Listed:
    """A container of a template: each resource's request and limit in whole units, None where it is not set."""

    name: str
    cpu: tuple[int | None, int | None]
    memory: tuple[int | None, int | None]

    def manifest(self, ranges: LimitRangeChanged | None) -> Json:
        """As the API server has it after its own defaults and a LimitRange's."""
        requests, limits = dict[str, str](), dict[str, str]()
        default = next((each for each in ranges.limits if each.type is LimitType.CONTAINER), Limit(LimitType.CONTAINER)) \
            if ranges else Limit(LimitType.CONTAINER)  # fmt: skip
        for resource, (request, limit), unit in (("cpu", self.cpu, "m"), ("memory", self.memory, "")):
            of_range = [getattr(each, resource) for each in (default.default_requests, default.default_limits)]
            whole = [None if each is None else round(each * (1000 if unit else 1)) for each in of_range]
            most = whole[1] if limit is None else limit
            asked = (most if self._limited(resource) else whole[0] or most) if request is None else request
            if most is not None:
                limits[resource] = f"{most}{unit}"
            if asked is not None:
                requests[resource] = f"{asked if most is None else min(asked, most)}{unit}"
        return admission_manifests.container(self.name, requests, limits)

    def _limited(self, resource: str) -> bool:
        return getattr(self, resource)[1] is not None


def pair(values: Any) -> Any:
    """A request and a limit, of which each may be missing; often the same."""
    alike = st.builds(lambda one: (one, one), values)
    ordered = st.builds(lambda one, other: (min(one, other), max(one, other)), values, values)
    return st.one_of(alike, ordered, st.builds(lambda one: (None, one), values), st.builds(lambda one: (one, None), values),
                     st.just((None, None)))  # fmt: skip


def advice(name: str, cpu: Any, memory: Any) -> ContainerRecommendation:
    cores = (None,) * 3 if cpu is None else tuple(each / 1000 for each in sorted(cpu))
    sizes = (None,) * 3 if memory is None else tuple(sorted(memory))
    lower, target, upper = (Amounts(*pair) for pair in zip(cores, sizes, strict=True))
    return ContainerRecommendation(name, lower, target, upper, target)


def triple(values: Any) -> Any:
    """Three amounts; often equal or close, as those of a container at its minimum or with a long history are."""
    near = st.builds(lambda one, low, high: (one, one + low, one + low + high), values, st.integers(0, 2), st.integers(0, 2))
    return maybe(st.one_of(st.tuples(values, values, values), near))


BOUND = st.builds(Amounts, maybe(CPU.map(lambda cpu: cpu / 1000)), maybe(MEMORY))


def limit(kind: LimitType, cpu: Any, memory: Any) -> Limit:
    """An entry as the API server accepts it: least <= default request <= default limit <= most, and no defaults for pods."""
    cores = [amount / 1000 if there else None for amount, there in zip(sorted(cpu[0]), cpu[1], strict=True)]
    sizes = [amount if there else None for amount, there in zip(sorted(memory[0]), memory[1], strict=True)]
    least, request, default, most = (Amounts(*pair) for pair in zip(cores, sizes, strict=True))  # type: ignore[arg-type]  # units
    return Limit(kind, least, most) if kind is LimitType.POD else Limit(kind, least, most, default, request)


def four(values: Any) -> Any:
    return st.tuples(st.tuples(*[values] * 4), st.tuples(*[st.booleans()] * 4))


LIMIT = st.builds(limit, st.sampled_from(LimitType), four(CPU), four(MEMORY))
ENTRY = st.builds(
    ContainerPolicy,
    st.sampled_from(["*", "app", "side"]),
    min_allowed=st.one_of(st.just(Amounts()), BOUND),
    max_allowed=st.one_of(st.just(Amounts()), BOUND),
    mode=st.sampled_from([ContainerMode.AUTO, ContainerMode.AUTO, ContainerMode.OFF]),
    controlled_values=st.sampled_from(ControlledValues),
)


@st.composite
def worlds(draw: Any) -> Json:
    names = NAMES[: draw(st.integers(1, 3))]
    ranges = maybe(st.lists(LIMIT, min_size=1, max_size=2, unique_by=lambda each: each.type))
    return {
        "containers": [Listed(name, draw(pair(CPU)), draw(pair(MEMORY))) for name in names],
        "advice": [advice(name, draw(triple(CPU)), draw(triple(MEMORY))) for name in names if draw(st.integers(0, 4))],
        "entries": tuple(draw(st.lists(ENTRY, max_size=2, unique_by=lambda each: each.container))),
        "limits": draw(ranges),
        "scaled": draw(st.sampled_from([(), (), ("cpu",), ("memory",)])),
        "mode": draw(st.sampled_from([UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE])),
        "profile": draw(st.sampled_from(["ullage", "upstream"])),
    }


@st.composite
def shared_worlds(draw: Any) -> Json:
    """Pods of two containers within a LimitRange on pods that binds: one amount is settled, the other is not."""
    settled, wide = draw(st.integers(100, 200)), draw(st.lists(st.integers(150, 4000), min_size=3, max_size=3))
    template = draw(st.tuples(st.integers(20, 60), st.integers(20, 60)))
    bound = draw(st.sampled_from(["least", "most"]))
    amount = draw(st.integers(400, 4500)) if bound == "least" else draw(st.integers(sum(template), 250))
    if bound == "least":
        template = template[0], amount - template[0]
    sizes = ((settled,) * 3, wide)
    return {
        "containers": [Listed(name, (25, 25), (size << 20,) * 2) for name, size in zip(NAMES, template, strict=False)],
        "advice": [advice(name, None, [each << 20 for each in size]) for name, size in zip(NAMES, sizes, strict=False)],
        "entries": (),
        "limits": [Limit(LimitType.POD, **{bound: Amounts(None, amount << 20)})],  # type: ignore[arg-type]  # units
        "scaled": (),
        "mode": draw(st.sampled_from([UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])),
        "profile": draw(st.sampled_from(["ullage", "upstream"])),
    }


@dataclass
class World:
    """Two pods of one Deployment, the stage that plans for them, and the webhook that admits their successors."""

    drawn: Json
    pods: dict[str, tuple[Json, PodChanged]] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        drawn = self.drawn
        free = {
            "warm_up": 0.0,
            "cool_down": 0.0,
            "unchanged_pause": 0.0,
            "min_replicas": 1,
            "eviction_tolerance": 1.0,
            "facts_within": 1e6,
        }
        self.stage: Any = Updater(replace(UpdateSettings(), profile=drawn["profile"], **free), 0)
        self.range = None
        if drawn["limits"]:
            self.range = LimitRangeChanged(when(START), "demo", "web", "lr", tuple(drawn["limits"]))
        policy = VerticalPolicyChanged(when(START), "*", "1", drawn["mode"], drawn["entries"])
        self.policies = [each for each in (self.range, policy) if each is not None]
        self.hpas = [HpaTargetChanged(when(START), "demo", "web", "hpa", API.key, drawn["scaled"])] if drawn["scaled"] else []
        self.index = AdmissionIndex("demo", lambda _: self.recommended(START))
        for each in (*self.policies, *self.hpas):
            self.index.apply(each, Place("policies", 0, 0))

    def recommended(self, number: int) -> RequestsRecommended:
        return RequestsRecommended(
            f"recommender/0/{number}/requests/{API.key}", when(number), API, tuple(self.drawn["advice"]), {}
        )

    def create(self, number: int, *, patched: bool = True) -> PodChanged:
        self.made += 1
        manifest = admission_manifests.pod(
            *(each.manifest(self.range) for each in self.drawn["containers"]), name=f"p{self.made}"
        )
        [vpa] = self.index.vpas("web", API.kind, API.name)
        if patched:
            found = pod_patch.patch(pod_spec.read(manifest, "web"), vpa, self.index.ranges("web"), AdmissionSettings())
            account = AdmissionAccount(ReviewStatus.APPLIED, namespace="web", containers=found.containers)
            offer = admission_report.offered(account, "ReplicaSet/web-1", self.recommended(START).id, {})
            manifest = admission_manifests.applied(
                manifest, found.ops if offer is None else (*found.ops, admission_report.note(offer))
            )
        return self.keep(manifest, number)

    def keep(self, manifest: Json, number: int) -> PodChanged:
        name = manifest["metadata"]["name"]
        seen = tuple(
            ContainerSeen(
                each["name"], *(read_amounts(each["resources"].get(kind, {})) for kind in ("requests", "limits")), ready=True
            )
            for each in manifest["spec"]["containers"]
        )
        annotations = manifest["metadata"].get("annotations", {})
        fact = PodChanged(
            when(number), API, PodName("web", name, f"uid-{name}"), PodPhase.RUNNING, when(START), seen,
            node="n1", started=when(START), controller="ReplicaSet/web-1", observed=annotations.get(OBSERVED_CONTAINERS),
            admitted=admission_notes.read(annotations.get(ADMISSION_NOTE)),
        )  # fmt: skip
        self.pods[name] = manifest, fact
        return fact

    def carry_out(self, plan: ResizePlanned | EvictionPlanned, number: int) -> tuple[list[Any], Any]:
        """The facts that follow, and the outcome; asserts that the plan changes something."""
        manifest, before = self.pods[plan.pod.name]
        if isinstance(plan, EvictionPlanned):
            del self.pods[plan.pod.name]
            after, action = self.create(number), Action.EVICT
            facts = [PodDeleted(when(number), API, plan.pod), after]
        else:
            containers = tuple(_resized(each, plan) for each in before.containers)
            after, action = replace(before, at=when(number), containers=containers), Action.RESIZE
            self.pods[plan.pod.name] = manifest, after
            facts = [after]
        assert _amounts(before) != _amounts(after), f"{action} of nothing: {_amounts(before)}, because {plan.because}"
        assert _outside(plan.because["containers"]) == []
        return facts, ActionFinished("o", when(number), plan.id, action, Result.DONE, "so", plan.subject)

    def try_out(self, refused: UpdateRefused, number: int) -> None:
        """Asserts that the successor of a pod that is left alone would indeed be no nearer to its targets."""
        before, after = self.pods[refused.pod.name][1], self.create(number)
        del self.pods[after.pod.name]
        targets: Any = refused.because["containers"]
        for now, new in zip(before.containers, after.containers, strict=True):
            for resource, target in targets.get(now.name, {"target": {}})["target"].items():
                former, found = getattr(now.requests, resource), getattr(new.requests, resource)
                if target is not None and former is not None:
                    away = abs(former - target)
                    assert abs(found - target) > away * (1 - 1 / 60) or found == former, (now, new, refused)

    def play(self) -> None:
        facts = [self.create(START, patched=False) for _ in "ab"]
        assume(self.range is None or all(_within(facts[0], each) for each in self.range.limits))
        outcomes: list[Any] = []
        policies, plans = [*self.policies, *self.hpas], 0
        control = ControlChanged(when(START), "demo", Mode.APPLY, budget=1.0)  # type: ignore[arg-type]  # units
        number = START + 13 * 60 * MINUTE
        self.stage.step(turn(START, policies=policies, control=[control], pod_changes_by_cluster=facts))
        facts = []
        for _ in range(40):
            number += MINUTE
            inputs = {
                "recommendations_by_cluster": [self.recommended(number)],
                "pod_changes_by_cluster": facts,
                "outcomes": outcomes,
            }
            decided = [each.event for each in self.stage.step(turn(number, **inputs))]
            for refused in decided:
                if isinstance(refused, UpdateRefused) and refused.reason.startswith("the pod's successor would come"):
                    self.try_out(refused, number)
            facts, outcomes = [], []
            for plan in (each for each in decided if isinstance(each, ResizePlanned | EvictionPlanned)):
                more, outcome = self.carry_out(plan, number)
                facts, outcomes, plans = [*facts, *more], [*outcomes, outcome], plans + 1
            if not facts:
                return
        raise AssertionError(f"{plans} plans, and there is always another one: {self.drawn}")


def _outside(containers: Any) -> list[str]:
    """The containers with a target outside its own bounds."""
    triples = (
        (name, [each[bound].get(resource) for bound in ("lower", "target", "upper")])
        for name, each in containers.items()
        for resource in each["target"]
    )
    return [name for name, amounts in triples if None not in amounts and amounts != sorted(amounts)]


def _resized(seen: ContainerSeen, plan: ResizePlanned) -> ContainerSeen:
    def over(old: Amounts, new: Amounts | None) -> Amounts:
        asked = new or Amounts()
        return Amounts(old.cpu if asked.cpu is None else asked.cpu, old.memory if asked.memory is None else asked.memory)

    return replace(
        seen, requests=over(seen.requests, plan.requests.get(seen.name)), limits=over(seen.limits, plan.limits.get(seen.name))
    )


def _within(pod: PodChanged, limit: Limit) -> bool:
    """Whether the API server's LimitRanger would let a pod in."""
    listed = pod.containers if limit.type is LimitType.CONTAINER else (None,)
    for each in listed:
        for resource in ("cpu", "memory"):
            least, most = getattr(limit.least, resource), getattr(limit.most, resource)
            members = pod.containers if each is None else (each,)
            requests = [getattr(member.requests, resource) for member in members]
            limits = [getattr(member.limits, resource) for member in members]
            if least is not None and (None in requests or sum(requests) < least - 1e-9):
                return False
            if most is not None and (None in limits or sum(limits) > most + 1e-9):
                return False
    return True


def _amounts(pod: PodChanged) -> list[tuple[str, Amounts, Amounts]]:
    return [(each.name, each.requests, each.limits) for each in pod.containers]


M = 50 << 20
BOUND_FROM_BELOW = {
    "containers": [Listed("app", (50, None), (M, M))],
    "advice": [advice("app", (25, 25, 25), None)],
    "entries": (),
    "limits": [limit(LimitType.POD, ((50, 50, 26, 26), (True, False, False, False)), ((M,) * 4, (False,) * 4))],
    "scaled": (),
    "mode": UpdateMode.RECREATE,
    "profile": "ullage",
}
"""The API server accepts no less than 26 millicores, and 25 are recommended."""
SHARED_OUT = {
    **BOUND_FROM_BELOW,
    "containers": [Listed(name, (25, 25), (M, M)) for name in ("app", "side")],
    "advice": [advice("side", None, (2 * M,) * 3)],
    "limits": [
        limit(LimitType.CONTAINER, ((25,) * 4, (False,) * 4), ((M,) * 4, (False,) * 4)),
        limit(LimitType.POD, ((25,) * 4, (False,) * 4), ((2 * M,) * 4, (False, False, False, True))),
    ],
}
"""What a pod may have is shared out anew by the amounts of each container, and the template's are others than the pod's."""


@example(BOUND_FROM_BELOW)
@example(SHARED_OUT)
@example({**BOUND_FROM_BELOW, "profile": "upstream"})
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.one_of(shared_worlds(), worlds()))
def test_every_plan_changes_a_pod_and_the_world_comes_to_rest(drawn: Json) -> None:
    World(drawn).play()
