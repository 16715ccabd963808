"""Why nodes and waiting pods are left as they are: the codes of `ScaleRefused`, beside those of nodes that stay.

A code is what metrics and alerts count by, so each of them is in the table of docs/nodes.md with what tells people of it.
"""

from enum import StrEnum


class RefusalCode(StrEnum):
    """The code of a refusal that is about pods, a group or the whole cluster."""

    NO_GROUP_FITS = "NoGroupFits"
    """No group's new node would take the pods."""
    NO_GROUP_MAY_GROW = "NoGroupMayGrow"
    """The groups that would take the pods may not grow now."""
    NOT_UNDERSTOOD = "NotUnderstood"
    """A node has room for pods by all that is known, and the scheduler does not place them; or it says nothing of them."""
    LIMITED = "limited"
    """The limits of the cluster leave no room for one more node."""
    MAX_NODES = "MaxNodesTotalReached"
    """The cluster has as many nodes as it may have."""
    POSTPONED = "postponed"
    """The pods have more rules between them than one decision goes through."""
    PAUSED = "paused"
    """Somebody paused all changes."""
    GROUP_BACKED_OFF = "BackedOff"
    """A group failed to grow, and is left alone for a while."""
    GROUP_AT_MAXIMUM = "AtMaximum"
    """A group has its maximum size."""
    GROUP_NOT_READY = "NotReady"
    """A group is out, or nobody knows how its new nodes look."""
    GROUP_LIMITED = "Limited"
    """A group's cloud starts no node of it, or a limit of the cluster allows none of its size."""
    GROUP_MISCONFIGURED = "GroupMisconfigured"
    """A group's bounds contradict each other, or its tags cannot be read."""
    NO_PRIORITIES = "PriorityConfigMapInvalid"
    """The ConfigMap with the groups' priorities is missing or cannot be read."""
    PRIORITIES_MISS_GROUPS = "PriorityConfigMapNotMatchedGroup"
    """No pattern of that ConfigMap matches some groups."""
    PRIORITIES_MISS_ALL = "PriorityConfigMapNoGroupMatched"
    """No pattern of it matches any group that could grow."""
    EXPANDER_FAILED = "ExpanderFailed"
    """The external expander gave no answer that could be used, so the next expander of the list decides."""
    BUDGET = "budget"
    """As many nodes are away as the budget allows."""
    DRAINS = "drains"
    """As many nodes are being drained as may be at one time."""
    REPLACEMENT_RELEASED = "ReplacementReleased"
    """A replacement was given up."""


PODS_WAIT = frozenset(
    (
        RefusalCode.NO_GROUP_FITS,
        RefusalCode.NO_GROUP_MAY_GROW,
        RefusalCode.NOT_UNDERSTOOD,
        RefusalCode.LIMITED,
        RefusalCode.MAX_NODES,
        RefusalCode.POSTPONED,
    )
)
"""Codes of refusals about pods for which nobody does anything."""
SAID_AGAIN = PODS_WAIT | {RefusalCode.EXPANDER_FAILED}
"""Codes that are said again every ten minutes while they hold, so that alerts go on."""
