"""What the updater must not take in: guards of a policy that its settings do not have or refuse, and quotas without a meaning."""

from collections.abc import Iterator

from agents.logic.stage_rules import fault
from agents.logic.updates.update_settings import UpdateSettings
from schemas import exact_quantity
from schemas.catalogue import Event
from schemas.exact_quantity import NotAQuantityError
from schemas.facts.update_facts import ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.policies.vertical import VerticalPolicyChanged


def reasons(event: Event) -> Iterator[str]:
    """Why an event must be refused; nothing for a good event, or one of another capability."""
    if isinstance(event, VerticalPolicyChanged) and (odd := fault(UpdateSettings, event.guards.said)) is not None:
        yield odd.replace("settings.", "guards.", 1)
    if isinstance(event, ResourceQuotaChanged | ResourceQuotaRemoved):
        yield from quota_reasons(event)


def quota_reasons(event: ResourceQuotaChanged | ResourceQuotaRemoved) -> Iterator[str]:
    """Why a fact about a quota must be refused."""
    for name in ("cluster", "namespace", "name"):
        text = getattr(event, name)
        if not text or "/" in text:
            yield f"{name} is '{text}'; it is a name without slashes"
    if isinstance(event, ResourceQuotaChanged):
        for name, amounts in (("hard", event.hard), ("used", event.used)):
            for resource, amount in amounts.items():
                try:
                    exact_quantity.parse(amount)
                except NotAQuantityError:
                    yield f"{name}['{resource[:80]}'] is '{amount[:80]}', which is no quantity"
