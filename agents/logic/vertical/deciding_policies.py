"""Which policies decide, which are in shadow, and what shows usage to those that remember something."""

from dataclasses import replace
from functools import partial

from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.memory_floors import MemoryFloors
from agents.logic.vertical.memory_leaks import MemoryLeaks
from agents.logic.vertical.policy_code import PolicyLookup
from agents.logic.vertical.policy_feed import PolicyFeed
from agents.logic.vertical.policy_states import PolicyStates
from agents.logic.vertical.recommended_amounts import EstimationRules, known_of
from agents.logic.vertical.vertical_settings import ADAPTIVE, VerticalSettings


def deciding_rules(
    settings: VerticalSettings, policy_of: PolicyLookup, floors: MemoryFloors, leaks: MemoryLeaks
) -> tuple[EstimationRules, EstimationRules, PolicyStates]:
    """The rules of what decides and of what is in shadow, and what the policies among them remember.

    `adaptive` decides where a container's rules ask for it, be it by the settings or by a policy of its own.
    """
    adaptive = policy_of(ADAPTIVE)
    others = [policy_of("" if name == ADAPTIVE else name) for name in (settings.policy, settings.shadow_policy)]
    decides = EstimationRules(settings, floors, leaks, policy=others[0], chosen=adaptive)
    # A shadow is for every container, also for those that a rule gives to another policy.
    shadow = replace(decides, chosen=None, policy=adaptive if settings.shadow_policy == ADAPTIVE else others[1])
    return decides, shadow, PolicyStates(policy for policy in (adaptive, *others) if policy is not None)


def feed_of(
    decides: EstimationRules, shadow: EstimationRules, usage: ContainerUsage, members: ContainerIndex, states: PolicyStates
) -> PolicyFeed:
    """What shows usage to the policies that remember something."""
    everywhere = {rules.policy.reference: rules.policy for rules in (decides, shadow) if rules.policy is not None}
    chosen = decides.chosen
    return PolicyFeed(
        usage,
        members,
        states,
        [policy for policy in everywhere.values() if policy.observe is not None],
        # It must not be shown a sample twice where it also sees every container.
        None if chosen is None or chosen.reference in everywhere else chosen,
        partial(known_of, usage, members, decides.settings),
        asked=decides.settings.policy == ADAPTIVE,
    )
