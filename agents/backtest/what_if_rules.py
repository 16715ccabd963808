"""Rules that were not in force: what to change in a recorded stretch so that its stages decide by them.

They come in as events, the way an operator puts them into the log: at the first tick of the stretch the rules of each stage, the
vertical policies and the budget. Later records of the same policies are left out; later rules and switches count, except for the
changed parts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from agents.backtest.event_runner import RoutedEvent
from agents.engine.stage import Stage
from schemas.policies import Policy
from schemas.policies.control import ControlChanged, RuleValue, StageRulesChanged, rules_version
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.units import Fraction

_VERSION = "what-if"
_ABSENT = "not in the log"


@dataclass(frozen=True, slots=True)
class OtherRules:
    """`settings` of stages by name, `policies` by target, and the `budget` of every cluster; None leaves the recorded one."""

    settings: Mapping[str, Mapping[str, RuleValue]] = field(default_factory=dict)
    policies: Sequence[VerticalPolicyChanged] = ()
    budget: Fraction | None = None

    def __bool__(self) -> bool:
        """Whether anything differs from the recording."""
        return bool(self.settings or self.policies or self.budget is not None)


@dataclass(slots=True)
class RulesInForce:
    """Follows what is in force in a recording, and changes it to `other` from a moment on."""

    stages: Sequence[Stage]
    other: OtherRules
    partitions: int
    rules: dict[str, StageRulesChanged] = field(default_factory=dict)
    control: dict[str, ControlChanged] = field(default_factory=dict)
    replaced: dict[tuple[str, str], list[RuleValue]] = field(default_factory=dict)
    """By stage and setting, the values that stood in the log's rules and are replaced by another."""
    replaced_budgets: set[float] = field(default_factory=set)

    def observe(self, events: Iterable[RoutedEvent]) -> None:
        """Before the moment: remember."""
        for event in (routed.event for routed in events):
            if isinstance(event, StageRulesChanged):
                self.rules[event.stage] = event
            elif isinstance(event, ControlChanged):
                self.control[event.cluster] = event

    def opening(self, at: datetime) -> Iterator[RoutedEvent]:
        """At the moment: what puts the other rules in force, for every partition."""
        for name in self.other.settings:
            yield from self._everywhere("rules", self._rules(name, at))
        for policy in self.other.policies:
            yield from self._everywhere("rules", replace(policy, at=at, version=_VERSION))
        for control in self.control.values() if self.other.budget is not None else ():
            yield from self._everywhere("control", self._changed(control))

    def after(self, events: Iterable[RoutedEvent]) -> Iterator[RoutedEvent]:
        """From the moment on: the recorded events without what would undo the other rules."""
        targets = {policy.target for policy in self.other.policies}
        for routed in events:
            match routed.event:
                case StageRulesChanged(stage=name) as rules if name in self.other.settings:
                    yield replace(routed, event=self._merged(rules.at, name, rules.settings))
                case VerticalPolicyChanged(target=target) | VerticalPolicyRemoved(target=target) if target in targets:
                    continue
                case ControlChanged() as control if self.other.budget is not None:
                    yield replace(routed, event=self._changed(control))
                case _:
                    yield routed

    def _everywhere(self, topic: str, event: Policy) -> Iterator[RoutedEvent]:
        yield from (RoutedEvent(event, topic, partition) for partition in range(self.partitions))

    def _rules(self, name: str, at: datetime) -> StageRulesChanged:
        """The rules in force with the other settings; before any stand in the log, those of this program."""
        before = self.rules.get(name)
        if before is None:
            ours = self._stage(name).rules
            return self._merged(
                at, name, {setting: ours[setting] for setting in ours if setting not in self.other.settings[name]}
            )
        return self._merged(at, name, before.settings)

    def _merged(self, at: datetime, name: str, before: Mapping[str, RuleValue]) -> StageRulesChanged:
        ours, program = self.other.settings[name], self._stage(name).program
        for setting, value in ours.items():
            recorded = before.get(setting, _ABSENT)
            if recorded != value and recorded not in self.replaced.setdefault((name, setting), []):
                self.replaced[name, setting].append(recorded)
        merged = {**before, **ours}
        return StageRulesChanged(at, name, program, merged, rules_version(name, program, merged))

    def _stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def _changed(self, control: ControlChanged) -> ControlChanged:
        if self.other.budget is None or control.budget == self.other.budget:
            return control
        self.replaced_budgets.add(control.budget)
        return replace(control, budget=self.other.budget)
