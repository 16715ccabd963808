"""What else than Ullage changes a group's size or ends its instances in AWS: actions, policies, refreshes, balancing of zones.

What an action or a policy sets is obeyed as any other change of a size; the source's report names both, because two that set one
size fight. A group whose instances AWS is replacing keeps its nodes until that is over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.group_responses import AutoScalingGroup
from streams.errors import EdgeError

# AWS names none of this where it describes a group: each is a call of its own, so it is asked for seldom, and few at a time.
PAUSE = timedelta(minutes=5)
"""Between two looks at the actions and policies of the account, and at the refreshes of a group."""
REFRESHING = timedelta(minutes=1)
"""Between two looks at a group whose instances are being replaced."""
BALANCING = "AZRebalance"
MOST_GROUPS = 5
"""Groups that one look asks about."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RivalControls:
    """What was found out last. `refreshing`: the groups whose instances AWS replaces now."""

    client: AwsClient
    refreshing: set[str] = field(default_factory=set)
    _rivals: dict[str, list[str]] = field(default_factory=dict)
    _asked: datetime | None = None
    _asked_group: dict[str, datetime] = field(default_factory=dict)
    _refusals: dict[str, str] = field(default_factory=dict)

    def look(self, groups: Sequence[AutoScalingGroup], at: datetime) -> None:
        """Ask AWS what is due. A refusal is told by `sentences`."""
        if self._asked is None or at - self._asked >= PAUSE:
            self._asked = at
            self._rivals = {}
            for what, ask in (
                ("scheduled action", self.client.scheduled_actions),
                ("scaling policy", self.client.scaling_policies),
            ):
                self._learn(what, ask)
        self._asked_group = {group.name: self._asked_group[group.name] for group in groups if group.name in self._asked_group}
        self.refreshing &= {group.name for group in groups}
        due = [group.name for group in groups if self._is_due(group.name, at)]
        due.sort(key=lambda name: self._asked_group.get(name, datetime.min.replace(tzinfo=at.tzinfo)))
        for name in due[:MOST_GROUPS]:
            self._asked_group[name] = at
            self._refresh(name)

    def sentences(self, groups: Sequence[AutoScalingGroup]) -> Iterator[str]:
        """What a user should know of these groups, and what could not be asked."""
        names = {group.name for group in groups}
        for name in sorted(self._rivals.keys() & names):
            yield f"group '{name}' has {' and '.join(self._rivals[name])}, which set its size beside Ullage"
        for group in groups:
            # AWS drains no instance that it ends to balance zones.
            if len(group.zones) > 1 and BALANCING not in group.suspended:
                ends = "AWS may end nodes of it without a drain"
                yield f"group '{group.name}' has {len(group.zones)} zones, and its process {BALANCING} is not suspended: {ends}"
        yield from self._refusals.values()

    def _is_due(self, group: str, at: datetime) -> bool:
        last = self._asked_group.get(group)
        return last is None or at - last >= (REFRESHING if group in self.refreshing else PAUSE)

    def _learn(self, what: str, ask: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        try:
            for group, names in ask().items():
                self._rivals.setdefault(group, []).extend(f"the {what} '{name}'" for name in names)
            self._refusals.pop(what, None)
        except EdgeError as error:
            self._refusals[what] = f"nobody knows whether a group has a {what}: {error}"

    def _refresh(self, group: str) -> None:
        try:
            runs = self.client.refreshes(group)
            self._refusals.pop("refresh", None)
        except EdgeError as error:  # what was known last holds
            self._refusals["refresh"] = f"nobody knows whether AWS is replacing the instances of a group: {error}"
            return
        if runs != (group in self.refreshing):
            _log.info("AWS replaces instances of a group" if runs else "AWS has replaced instances of a group", group=group)
        (self.refreshing.add if runs else self.refreshing.discard)(group)
