"""A cloud for the scaler's stage: groups that deliver or do not, and consumers and a scheduler that do what the real ones do.

Nothing lowers a size here but a plan of the scaler, and AWS ends instances where a group wants fewer than it has. A pod fills a
node. The time is that of the run.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned, SizeCorrectionPlanned
from schemas.facts.nodes import (
    NodeDetailsRemoved,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeTaint,
    ScalingActivityFailed,
)
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved
from schemas.outcomes import OutcomeDetail, Result
from tests.support.cluster_events import GIB, when
from tests.support.node_scene import CLUSTER, ScalerRun, instance, node, pod

BOOT, SLOW_BOOT, TRIED_AGAIN, ENDS, FLAP = 60_000, 1_200_000, 60_000, 60_000, 120_000
_SMALL = {"cpu": 2000, "memory": 8 * GIB, "pods": 110}


class Fault(StrEnum):
    """What is wrong with a group from some moment on."""

    NONE = "none"
    SHORTAGE = "shortage"
    NEVER_REGISTERS = "never registers"
    NEVER_READY = "never ready"
    ALL_UNREADY = "all unready"
    SUSPENDED = "suspended, and said so"
    SILENT = "nothing comes, and nothing is said"
    NO_TEMPLATE = "no template"
    DELETED = "deleted"
    GROWTH_FAILS = "growth is refused"
    REMOVAL_FAILS = "removals fail"
    SIZE_BY_OTHERS = "others want more, and nothing comes"
    BELOW_MINIMUM = "less than its minimum"
    ABOVE_MAXIMUM = "more than its maximum"
    SMALLER = "its nodes come smaller than ever"
    NO_LABELS = "its nodes come without their labels"
    UNANSWERED = "AWS throttles what is asked of it, until plans expire"
    KEPT = "terminating is suspended, and said so"
    REFRESHING = "its instances are being replaced"
    UNSCALABLE = "its size is no number of nodes any more"
    FLAPS = "its nodes end soon after they came"
    STANDBY = "somebody put its instances aside"
    QUOTA = "the account may have no more of its type"
    TEMPLATE_GONE = "each launch says that its template does not exist"
    DENIED = "each launch says that it is not allowed"
    VANISHES = "its instances end before they join, and others come"
    TAINTED = "its nodes come with a taint that nobody knew of"
    SLOW = "its nodes take twenty minutes"
    ONE_AT_A_TIME = "it gives one instance in ten minutes"
    FROZEN = "nothing new is known of it"
    RESIZED = "somebody sets its size up and down"
    SET_BACK = "somebody sets its size back whenever it has grown"
    RAISED = "somebody raises its size again whenever a node has gone"


_SAYS = {
    Fault.SHORTAGE: "InsufficientInstanceCapacity",
    Fault.QUOTA: "VcpuLimitExceeded",
    Fault.TEMPLATE_GONE: "InvalidLaunchTemplateId.NotFound",
    Fault.DENIED: "UnauthorizedOperation",
}
"""What AWS says of each try to launch."""
_DELIVERS_NOTHING = (*_SAYS, Fault.SUSPENDED, Fault.SILENT, Fault.SIZE_BY_OTHERS, Fault.BELOW_MINIMUM)
_TAINTED = (NodeTaint("example.com/agent", "", "NoSchedule"),)


@dataclass
class Machine:
    """An instance; its node has the same name. `gone_at`: when it ends, once that is ordered."""

    name: str
    launched: int
    joined: bool = False
    ready: bool = False
    small: bool = False
    bare: bool = False
    tainted: bool = False
    aside: bool = False
    gone_at: int | None = None

    def takes(self, group: str, only: str) -> bool:
        """Whether a pod that needs 3.5 cores, and perhaps the label of a group, may run on it."""
        free = not self.small and not self.tainted
        return self.ready and self.gone_at is None and free and only in ("", "" if self.bare else group)


@dataclass
class Company:
    """A group of the cloud."""

    fact: NodeGroupSeen
    fault: Fault = Fault.NONE
    keeps_size: bool = False
    """Whether nobody may lower its size."""
    machines: dict[str, Machine] = field(default_factory=dict)
    tried: int = 0
    kept: tuple[int, int] = (0, 0)
    """The size that somebody sets it back to, and how many milliseconds after it grew."""

    @property
    def existing(self) -> int:
        return sum(one.gone_at is None and not one.aside for one in self.machines.values())


class NodeCloud:
    """The groups, their machines, and the pods that wait or run."""

    def __init__(self, run: ScalerRun, *facts: NodeGroupSeen) -> None:
        """All nodes that the groups want are there and ready."""
        self.run = run
        self.companies = {fact.group: Company(fact) for fact in facts}
        self.waiting: dict[str, PodPlacementChanged] = {}
        self.placed: dict[str, str] = {}
        self.selectors: dict[str, str] = {}
        self.shapes: dict[str, str] = {}
        self.unanswered: list[ScaleUpPlanned | SizeCorrectionPlanned | NodeRemovalPlanned] = []
        self.victims: list[str] = []
        """Machines that the cloud chose itself, because a group wanted fewer than it had."""
        self.beyond: list[str] = []
        """Plans to grow to more than exists and waits."""
        self._made = self._read = 0
        first: list[Event] = list(facts)
        for name, company in self.companies.items():
            for _ in range(company.fact.desired):
                machine = self._machine(company, run.now - 3_600_000)
                machine.joined = machine.ready = True
                first += [instance(machine.name, name), node(machine.name, name)]
        run.step(*first)

    def wait(self, shape: str, *names: str, only: str = "") -> None:
        """Pods wait, for any group or for one alone."""
        for name in names:
            self.waiting[name], self.selectors[name], self.shapes[name] = pod(name, shape, created=self.run.now), only, shape
        self.run.step(*(self.waiting[name] for name in names))

    def give_up(self, *names: str) -> None:
        """Pods that wait are wanted no more."""
        gone = [self.waiting.pop(name).pod for name in names]
        self.run.step(*(PodPlacementRemoved(when(self.run.now), CLUSTER, name) for name in gone))

    def end(self, name: str) -> None:
        """A pod that has a node ends."""
        del self.placed[name]
        uid = pod(name, self.shapes[name]).pod
        self.run.step(PodPlacementRemoved(when(self.run.now), CLUSTER, uid))

    def breaks(self, group: str, fault: Fault, number: int, *, keeps_size: bool = False) -> None:
        """From now on this is wrong with the group."""
        company = self.companies[group]
        company.fault, company.keeps_size = fault, keeps_size
        company.kept = company.fact.desired, TRIED_AGAIN // 3 * (1 + number)
        fact = company.fact
        if fault is Fault.DELETED:
            gone: list[Event] = [NodeInstanceGone(when(self.run.now), CLUSTER, group, name) for name in company.machines]
            left: list[Event] = [NodeDetailsRemoved(when(self.run.now), CLUSTER, name) for name in company.machines]
            self.run.step(NodeGroupGone(when(self.run.now), CLUSTER, group), *gone, *left)
            company.machines.clear()
            return
        changed = {
            Fault.SUSPENDED: replace(fact, suspended=("Launch",)),
            Fault.NO_TEMPLATE: replace(fact, template=None, no_template="its launch template 'lt-1' is gone"),
            Fault.SIZE_BY_OTHERS: replace(fact, desired=min(fact.desired + 1 + number, fact.most)),
            Fault.BELOW_MINIMUM: replace(fact, least=fact.desired + 1 + number, most=fact.desired + 5 + number),
            Fault.ABOVE_MAXIMUM: replace(fact, most=max(fact.desired - 1, 0)),
            Fault.KEPT: replace(fact, suspended=("Terminate",)),
            Fault.REFRESHING: replace(fact, refreshing=True),
            Fault.UNSCALABLE: replace(fact, unscalable="its types have weights"),
            Fault.STANDBY: replace(fact, desired=max(fact.desired - number, fact.least)),
        }
        if fault is Fault.STANDBY:
            for machine in list(company.machines.values())[: fact.desired - changed[fault].desired]:
                machine.aside = True
                self.run.step(instance(machine.name, group, lifecycle="Standby"))
        if fault in changed:
            self._fact(company, changed[fault])
        if fault is Fault.ALL_UNREADY:
            for machine in company.machines.values():
                machine.ready = False
            self.run.step(*(self._node(company, machine) for machine in company.machines.values() if machine.joined))

    def go(self, seconds: float) -> None:
        """Let time pass."""
        end = self.run.now + int(seconds * 1000)
        while self.run.now < end:
            self.run.step()
            plans, self._read = self.run.decided[self._read :], len(self.run.decided)
            for plan in plans:
                self._carry_out(plan)
            for late in [plan for plan in self.unanswered if plan.expires < when(self.run.now)]:
                self.unanswered.remove(late)
                self.run.answer(late, Result.EXPIRED, OutcomeDetail.THROTTLED)
            for company in self.companies.values():
                if company.fault is not Fault.DELETED:
                    self._advance(company)
            self._schedule()

    def nodes(self, group: str) -> int:
        return len(self.companies[group].machines)

    # AWS

    @property
    def launched(self) -> int:
        """How many instances have ever been started."""
        return self._made

    def _machine(self, company: Company, launched: int) -> Machine:
        self._made += 1
        machine = Machine(f"{company.fact.group}-{self._made}", launched)
        company.machines[machine.name] = machine
        return machine

    def _fact(self, company: Company, fact: NodeGroupSeen) -> None:
        company.fact = replace(fact, at=when(self.run.now))
        if company.fault is not Fault.FROZEN:
            self.run.step(company.fact)

    def _node(self, company: Company, machine: Machine) -> Event:
        ready = {"Ready": "True" if machine.ready else "False"}
        taints = (
            (_TAINTED if machine.tainted else ())
            if machine.ready
            else (NodeTaint("node.kubernetes.io/not-ready", "", "NoSchedule"),)
        )
        more: dict[str, Any] = {"allocatable": _SMALL, "capacity": _SMALL} if machine.small else {}
        more |= {"labels": {}} if machine.bare else {}
        return node(machine.name, company.fact.group, created=when(machine.launched), conditions=ready, taints=taints, **more)

    def _advance(self, company: Company) -> None:
        now, group = self.run.now, company.fact.group
        for machine in [one for one in company.machines.values() if one.gone_at is not None and one.gone_at <= now]:
            del company.machines[machine.name]
            gone: list[Event] = [NodeInstanceGone(when(now), CLUSTER, group, machine.name)]
            self.run.step(*gone, *([NodeDetailsRemoved(when(now), CLUSTER, machine.name)] if machine.joined else []))
            for pod_name in [name for name, where in self.placed.items() if where == machine.name]:
                del self.placed[pod_name]
                self.wait(self.shapes[pod_name], pod_name, only=self.selectors[pod_name])
        self._resize(company)
        missing = company.fact.desired - company.existing
        if missing > 0:
            self._launch(company, missing)
        for machine in [one for one in company.machines.values() if one.gone_at is None and not one.aside][: max(-missing, 0)]:
            self.victims.append(machine.name)
            machine.gone_at = now + ENDS
        for machine in company.machines.values():
            if company.fault is Fault.FLAPS and machine.launched + FLAP <= now and machine.gone_at is None:
                machine.gone_at = now
            if company.fault is Fault.VANISHES and not machine.joined and machine.launched + BOOT // 2 <= now:
                machine.gone_at = machine.gone_at or now
            boot = SLOW_BOOT if company.fault is Fault.SLOW else BOOT
            due = not machine.joined and machine.gone_at is None and now >= machine.launched + boot
            if due and company.fault is not Fault.NEVER_REGISTERS:
                machine.joined = True
                machine.small, machine.bare = company.fault is Fault.SMALLER, company.fault is Fault.NO_LABELS
                machine.tainted = company.fault is Fault.TAINTED
                machine.ready = company.fault not in (Fault.NEVER_READY, Fault.ALL_UNREADY)
                self.run.step(self._node(company, machine))

    def _resize(self, company: Company) -> None:
        """What others do to its size."""
        now, desired = self.run.now, company.fact.desired
        if company.fault is Fault.RESIZED and now >= company.tried + 3 * TRIED_AGAIN:
            company.tried = now
            self._fact(company, replace(company.fact, desired=desired + 1 if desired < company.fact.most else company.fact.least))
        if company.fault in (Fault.SET_BACK, Fault.RAISED):
            size, after = company.kept
            other = desired > size if company.fault is Fault.SET_BACK else desired < size
            company.tried = (company.tried or now) if other else 0
            if company.tried and now >= company.tried + after:
                self._fact(company, replace(company.fact, desired=size))

    def _launch(self, company: Company, missing: int) -> None:
        now, group = self.run.now, company.fact.group
        if company.fault is Fault.ONE_AT_A_TIME:
            if now < company.tried + 10 * TRIED_AGAIN:
                return
            company.tried, missing = now, 1
        if company.fault not in _DELIVERS_NOTHING:
            self.run.step(*(instance(self._machine(company, now).name, group) for _ in range(missing)))
        elif company.fault in _SAYS and now >= company.tried + TRIED_AGAIN:
            company.tried = now
            code = _SAYS[company.fault]
            self.run.step(
                ScalingActivityFailed(when(now), CLUSTER, group, f"{group}-{now}", code, "none there", "", "", when(now))
            )

    # Our consumers

    def _carry_out(self, plan: object) -> None:
        company = self.companies.get(getattr(plan, "group", ""))
        if company is None or not isinstance(plan, ScaleUpPlanned | SizeCorrectionPlanned | NodeRemovalPlanned):
            return
        if company.fault is Fault.UNANSWERED:
            self.unanswered.append(plan)
            return
        if isinstance(plan, ScaleUpPlanned):
            self.run.answer(plan, *self._grow(company, plan))
        elif isinstance(plan, SizeCorrectionPlanned):
            self.run.answer(plan, *self._lower(company, plan))
        else:
            self.run.answer(plan, *self._remove(company, plan))

    def _grow(self, company: Company, plan: ScaleUpPlanned) -> tuple[Result, OutcomeDetail]:
        if plan.after > company.existing + len(self.waiting):
            self.beyond.append(f"{plan.group} {plan.before} to {plan.after} with {company.existing} and {len(self.waiting)} pods")
        if company.fault is Fault.DELETED:
            return Result.REFUSED, OutcomeDetail.NOT_FOUND
        if company.fault is Fault.GROWTH_FAILS:
            return Result.FAILED, OutcomeDetail.FORBIDDEN
        if company.fact.desired != plan.before:
            return Result.REFUSED, OutcomeDetail.MOVED
        if plan.after > company.fact.most:
            return Result.REFUSED, OutcomeDetail.AT_LIMIT
        self._fact(company, replace(company.fact, desired=plan.after))
        return Result.DONE, OutcomeDetail.APPLIED

    def _lower(self, company: Company, plan: SizeCorrectionPlanned) -> tuple[Result, OutcomeDetail]:
        least = max(plan.after, company.existing, company.fact.least)
        if company.fact.desired <= least:
            return Result.DONE, OutcomeDetail.ALREADY_DONE
        if company.keeps_size:
            return Result.FAILED, OutcomeDetail.FORBIDDEN
        if company.fact.desired != plan.before:
            return Result.REFUSED, OutcomeDetail.MOVED
        self._fact(company, replace(company.fact, desired=least))
        return Result.DONE, OutcomeDetail.APPLIED

    def _remove(self, company: Company, plan: NodeRemovalPlanned) -> tuple[Result, OutcomeDetail]:
        machine = company.machines.get(plan.instance)
        if machine is None:
            return Result.DONE, OutcomeDetail.ALREADY_DONE
        if company.fault is Fault.REMOVAL_FAILS:
            return Result.FAILED, OutcomeDetail.FORBIDDEN
        if company.fact.desired <= company.fact.least:
            return Result.REFUSED, OutcomeDetail.AT_LIMIT
        machine.gone_at = self.run.now + ENDS
        self._fact(company, replace(company.fact, desired=company.fact.desired - 1))
        return Result.DONE, OutcomeDetail.APPLIED

    # The scheduler

    def _schedule(self) -> None:
        taken = set(self.placed.values())
        for name, waits in list(self.waiting.items()):
            free = [
                machine.name
                for group, company in self.companies.items()
                for machine in company.machines.values()
                if machine.name not in taken and machine.takes(group, self.selectors[name])
            ]
            if free:
                taken.add(free[0])
                self.placed[name] = free[0]
                del self.waiting[name]
                self.run.step(pod(name, waits.shape, node=free[0]))
