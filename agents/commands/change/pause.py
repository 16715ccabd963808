"""Runs `ullage pause` and `ullage resume`. Mode and budget stay what they are."""

from agents.commands.change.mode import change_control
from agents.settings.all_settings import Settings


def pause(settings: Settings, *, reason: str) -> None:
    """Stop all changes to the cluster."""
    change_control(settings, paused=True, reason=reason)


def resume(settings: Settings, *, reason: str) -> None:
    """End a pause."""
    change_control(settings, paused=False, reason=reason)
