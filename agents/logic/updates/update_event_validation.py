"""What the updater must not take in: guards of a policy that its settings do not have, or with values that those refuse."""

from collections.abc import Iterator

from agents.logic.stage_rules import fault
from agents.logic.updates.update_settings import UpdateSettings
from schemas.catalogue import Event
from schemas.policies.vertical import VerticalPolicyChanged


def reasons(event: Event) -> Iterator[str]:
    """Why an event must be refused; nothing for a good event, or one of another capability."""
    if isinstance(event, VerticalPolicyChanged) and (odd := fault(UpdateSettings, event.guards.said)) is not None:
        yield odd.replace("settings.", "guards.", 1)
