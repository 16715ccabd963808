"""From settings to the plan of a live worker."""

from agents.app.plan import Plan


def plan() -> Plan:
    """The plan that settings files and the environment ask for."""
    raise NotImplementedError
