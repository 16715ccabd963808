"""The asg source: polls AWS for the groups that we scale, and publishes what changed.

Groups are named one by one, with bounds of their own, or found by their tags. While a group is below its desired size, its
scaling activities are read, and a failure becomes a fact at once. An AWS error about one group does not affect the others; after
one about all of them the source reports that it sees nothing. The source changes nothing in AWS and reads no clock.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from schemas import event_bounds
from schemas.bounds import MOST_TEXT
from schemas.facts.nodes import (
    InstanceInterruptionNoticed,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    NodeTemplateSeen,
    ScalingActivityFailed,
)
from schemas.facts.sources import SourceReported
from schemas.units import Seconds
from streams.clients.aws import interruption_notices
from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.ec2_instances import InstancePrices, InstanceSize, InstanceState
from streams.clients.aws.group_responses import AutoScalingGroup
from streams.clients.aws.interruption_notices import QueueMessage
from streams.errors import EdgeError, TryAgain
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.sources.asg import group_facts
from streams.sources.asg.group_facts import TOPIC, PublishedGroups, read_published
from streams.sources.asg.launch_lookups import LaunchDetails, LaunchLookups, RivalControls

FIRST, LONGEST = timedelta(seconds=1), timedelta(seconds=60)
"""The first pause of a group, and the longest."""
# AWS counts calls of all programs of an account together, so what a shortage of hours costs is bounded.
MOST_A_MINUTE = 60
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Pause:
    asked: datetime
    length: timedelta


@dataclass(slots=True)
class ActivityTurns:
    """Whose activities are read when: those of a group that changed at once, those of one that goes on lacking nodes more seldom.

    `waiting`: groups that had no turn in the last look, because of the bound.
    """

    waiting: int = 0
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _calls: deque[datetime] = field(default_factory=deque)

    def take(self, unsettled: Iterable[str], changed: Collection[str], at: datetime) -> list[str]:
        """The groups that are asked about now, those first that were asked longest ago."""
        while self._calls and at - self._calls[0] >= MINUTE:
            self._calls.popleft()
        names = sorted(unsettled)
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in set(names) and name not in changed}
        due = [name for name in names if self._is_due(name, at)]
        due.sort(key=lambda name: self._pauses[name].asked if name in self._pauses else datetime.min.replace(tzinfo=at.tzinfo))
        turns = due[: max(MOST_A_MINUTE - len(self._calls), 0)]
        self.waiting = len(due) - len(turns)
        for name in turns:
            before = self._pauses.get(name)
            self._pauses[name] = _Pause(at, FIRST if before is None else min(2 * before.length, LONGEST))
        self._calls.extend(at for _ in turns)
        return turns

    def _is_due(self, name: str, at: datetime) -> bool:
        pause = self._pauses.get(name)
        return pause is None or at - pause.asked >= pause.length

    def expects_news(self) -> bool:
        """Whether a group changed so lately that its next news may come within seconds."""
        return self.waiting > 0 or any(pause.length < LONGEST for pause in self._pauses.values())


GroupFact = NodeGroupSeen | NodeGroupGone | NodeInstanceSeen | NodeInstanceGone | ScalingActivityFailed
TemplateMaker = Callable[[AutoScalingGroup, LaunchDetails, Mapping[str, InstanceSize]], NodeTemplateSeen]
"""How an empty new node of a group would look. Raises ValueError with the sentence why nobody knows."""
NAME = "asg"
SOURCE = f"/ullage/source/{NAME}"
REPORT_PERIOD = timedelta(seconds=30)
ACTIVITY_SPAN = timedelta(hours=1)
"""How old a failed activity may be when it is first seen."""
_NO_RIGHT = timedelta(minutes=10)
_MOST_LACKS = 20
"""What the source goes on without that a report names; the log lines name all of it."""
_FACTS_OF = "facts of "
_BESIDE = "beside us: "
_MOST_READS = 10
"""Times that the queue is read in one look, for ten messages each; the others have their turn in the next ones."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GroupBounds:
    """The bounds of a group that is named one by one; they count instead of AWS's own."""

    name: str
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """Which groups are ours: those named here, and those that carry all these tags (an empty value stands for any).

    `prices` are those of their nodes, as far as they are configured. `notices` is the URL of the queue into which AWS announces
    that it takes instances; empty for none.
    """

    explicit: tuple[GroupBounds, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    prices: InstancePrices = field(default_factory=InstancePrices)
    notices: str = ""


class AsgSource:
    """The groups of one cluster into one log. One thread calls it."""

    def __init__(
        self,
        client: AwsClient,
        context: LogContext,
        selection: GroupSelection,
        template: TemplateMaker,
        outbox: Outbox | None = None,
    ) -> None:
        """`outbox` is another one in tests of its bound."""
        self._client, self._context, self._selection, self._template = client, context, selection, template
        self._outbox = Outbox(context) if outbox is None else outbox
        self._launch = LaunchLookups(client)
        self._rivals = RivalControls(client)
        self._published: PublishedGroups | None = None
        self._states: dict[str, InstanceState] = {}
        self._states_after: datetime | None = None
        self._turns = ActivityTurns()
        self.period = REPORT_PERIOD  # longer where it is asked to look less often, or it would seem silent
        """How often it says that it is running."""
        self._reported: tuple[datetime, tuple[object, ...]] | None = None
        self._logged: dict[str, str] = {}
        self._lacks: dict[str, str] = {}
        """What the source goes on without now, by what it is about."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    def poll(self, at: datetime) -> bool:
        """Poll AWS once and publish what is new; True if no change is expected soon. Raises TryAgain and GiveUp.

        The first call needs the log, to know what was published before: it raises LogUnavailable without it.
        """
        # Not in __init__: the log may be away when the process starts.
        if self._published is None:
            self._published = read_published(self._context)
        try:
            groups = self._groups()
        except EdgeError:
            # Consumers must not take the last facts for the present while AWS gives none.
            self._publish([], at, sees=False)
            raise
        self._look_at_rivals(groups, at)
        published = self._published
        changed = self._publish_groups(groups, published, at)
        if self._published is not published:  # facts were lost, so that all is compared with the log again
            return False
        unsettled = [group.name for group in groups if not group.settled or group.name in changed]
        self._publish(self._failures(self._turns.take(unsettled, changed, at), published, at), at, sees=True)
        if self._published is not published:
            return False
        read_up = not self._selection.notices or self._publish_notices(self._selection.notices, published, at)
        return read_up and (all(group.settled for group in groups) or not self._turns.expects_news())

    def _groups(self) -> list[AutoScalingGroup]:
        """All our groups, by name; configured bounds win."""
        sizes = {bounds.name: bounds for bounds in self._selection.explicit}
        tags = self._selection.tags
        named = self._client.groups(list(sizes))
        there = {group.name: group for group in named}
        for name, bounds in sizes.items():
            self._lack(f"group {name}", _mismatch(bounds, there.get(name)))
        tagged = self._client.groups_with_tags(tags) if tags else []
        shown = ", ".join(f"{key}={value}" if value else key for key, value in tags.items())
        self._lack("tags", f"no group carries all tags of aws.discovery: {shown}" if tags and not tagged else "")
        ours = [replace(group, least=sizes[group.name].least, most=sizes[group.name].most) for group in named]
        return sorted([*ours, *(group for group in tagged if group.name not in sizes)], key=lambda group: group.name)

    def _look_at_rivals(self, groups: Sequence[AutoScalingGroup], at: datetime) -> None:
        self._rivals.look(groups, at)
        sentences = dict.fromkeys(self._rivals.sentences(groups))
        for about in [
            about for about in self._lacks if about.startswith(_BESIDE) and about.removeprefix(_BESIDE) not in sentences
        ]:
            self._lack(about)
        for sentence in sentences:
            self._lack(f"{_BESIDE}{sentence}", sentence)

    def _publish_groups(self, groups: Sequence[AutoScalingGroup], published: PublishedGroups, at: datetime) -> set[str]:
        """Publish what changed of groups and instances; the names of the groups that changed."""
        self._learn_states(groups, at)
        # Otherwise a group that is no longer ours would be lacked for ever.
        self._lacks = {about: what for about, what in self._lacks.items() if not about.startswith(_FACTS_OF)}
        seen = [self._group_fact(group, at) for group in groups]
        changed = {fact.group for fact in seen if self._fits(fact) and published.group_is_news(fact)}
        facts: list[GroupFact] = [fact for fact in seen if fact.group in changed]
        present: set[str] = set()
        for group in groups:
            for instance in group.instances:
                if instance.warm:  # it is no part of the group yet, or no longer: its size does not count it
                    continue
                present.add(instance.id)
                fact = group_facts.instance_seen(self._context.cluster, group.name, instance, self._states.get(instance.id), at)
                if self._fits(fact) and published.instance_is_news(fact):
                    facts.append(fact)
                    changed.add(group.name)
        facts += self._gone({group.name for group in groups}, present, published, at)
        self._publish(facts, at, sees=True)
        return changed

    def _group_fact(self, group: AutoScalingGroup, at: datetime) -> NodeGroupSeen:
        launch = self._launch.details(group, at)
        try:
            template: NodeTemplateSeen | str = self._template(group, launch, self._launch.sizes(at))
        except ValueError as error:
            template = str(error)
        refreshing = group.name in self._rivals.refreshing
        seen = group_facts.group_seen(self._context.cluster, group, launch, template, at, refreshing=refreshing)
        return replace(seen, price=self._selection.prices.of_group(seen.instance_types, spot=seen.spot))

    def _gone(self, groups: set[str], instances: set[str], published: PublishedGroups, at: datetime) -> Iterator[GroupFact]:
        cluster = self._context.cluster
        for name in sorted(published.instances.keys() - instances):
            self._states.pop(name, None)
            yield NodeInstanceGone(at, cluster, published.instances.pop(name).group, name)
        for name in sorted(published.groups.keys() - groups):
            del published.groups[name]
            yield NodeGroupGone(at, cluster, name)

    def _learn_states(self, groups: Sequence[AutoScalingGroup], at: datetime) -> None:
        """Look up new instances in EC2. What it refuses is left out of the facts, and looked up again after a while."""
        instances = (instance for group in groups for instance in group.instances)
        new = [instance.id for instance in instances if instance.id not in self._states and not instance.warm]
        if not new or (self._states_after is not None and at < self._states_after):
            return
        try:
            self._states.update(self._client.instance_states(new))
            self._states_after = None
            self._lack("instances")
        except EdgeError as error:
            # A missing right comes seldom back by itself, and each look would ask for it.
            self._states_after = at + (timedelta(seconds=error.after) if isinstance(error, TryAgain) else _NO_RIGHT)
            self._lack("instances", str(error))

    def _failures(self, groups: Sequence[str], published: PublishedGroups, at: datetime) -> list[ScalingActivityFailed]:
        """The failures of these groups that were not published before, oldest first."""
        since = at - ACTIVITY_SPAN
        published.forget_activities(since - ACTIVITY_SPAN)
        failures: list[ScalingActivityFailed] = []
        refusal = ""
        for group in groups:
            try:
                activities = self._client.activities_since(group, since)
            except EdgeError as error:
                refusal = refusal or str(error)
                continue
            for activity in reversed(activities):  # AWS gives the newest first
                fact = group_facts.activity_failed(self._context.cluster, group, activity, at)
                if activity.failed and activity.id not in published.activities and self._fits(fact):
                    published.activities[activity.id] = at
                    failures.append(fact)
        if groups:
            self._lack("activities", refusal)
        late = f"{self._turns.waiting} groups that lack nodes wait for their turn, with {MOST_A_MINUTE} calls a minute at most"
        self._lack("turns", late if self._turns.waiting else "")
        return failures

    def _publish_notices(self, queue: str, published: PublishedGroups, at: datetime) -> bool:
        """Publish what AWS announces, and remove from the queue what is in the log; False when the queue may have more.

        What AWS refuses is logged. A fact that readers would refuse is logged and left out, and its message is removed as well.
        """
        try:
            for _ in range(_MOST_READS):
                messages = self._client.messages(queue)
                self._lack("queue")
                facts = [fact for message in messages for fact in self._noticed(message, published, at) if self._fits(fact)]
                if not messages or not self._append(facts):  # what the log has not taken stays in the queue
                    return True
                self._client.remove_messages(queue, messages)
        except EdgeError as error:
            self._lack("queue", str(error))
            return True
        return False

    def _noticed(self, message: QueueMessage, published: PublishedGroups, at: datetime) -> Iterator[InstanceInterruptionNoticed]:
        """The facts in a message about our instances."""
        try:
            notice = interruption_notices.read_notice(message)
        except ValueError as error:
            self._log_once("notices", f"message '{message.id}' of the queue is no notice: {error}"[:500])
            return
        for instance in notice.instances if notice is not None else ():
            if notice is not None and instance in published.instances:
                yield InstanceInterruptionNoticed(at, self._context.cluster, instance, notice.kind, message.id, notice.noticed)

    def _fits(self, fact: GroupFact | InstanceInterruptionNoticed) -> bool:
        """Whether readers would accept a fact; one that they would refuse is logged, and left out."""
        fault = event_bounds.fault(fact)
        what = "" if fault is None else f"what AWS says is too large to be kept: {' '.join(fault).lstrip('.')}"
        if isinstance(fact, NodeGroupSeen):
            self._lack(f"{_FACTS_OF}{fact.group}", what and f"group '{fact.group}': {what}")
        elif what:
            self._log_once("notices" if isinstance(fact, InstanceInterruptionNoticed) else fact.group, what)
        return fault is None

    def _publish(self, facts: Iterable[GroupFact], at: datetime, *, sees: bool) -> None:
        self._append(facts, self._report(at, sees=sees))

    def _append(self, facts: Iterable[GroupFact | InstanceInterruptionNoticed], more: Iterable[NewRecord] = ()) -> bool:
        """Whether the log has taken all of it."""
        context = self._context
        partition = context.topics.partition_of(context.cluster)
        records = [
            context.codec.encode(fact, topic=TOPIC, key=context.cluster, partition=partition, source=SOURCE) for fact in facts
        ]
        self._outbox.publish(facts=[*records, *more], scrapes=())
        flushed = self._outbox.flush()
        if flushed and self._outbox.report_losses():
            # Facts were dropped, so the log does not hold what is believed to be published: it is read again, as at a start.
            self._published = None
            return False
        return flushed

    def _report(self, at: datetime, *, sees: bool) -> list[NewRecord]:
        """Report that this source is running, when that is due or when what it sees or lacks has changed."""
        # By what is lacked and not by the sentences, which may quote other numbers at each look.
        now = (sees, *sorted(self._lacks)) if sees else (False,)
        if self._reported is not None and self._reported[1] == now and at - self._reported[0] < self.period:
            return []
        self._reported = at, now
        cluster, period = self._context.cluster, Seconds(self.period.total_seconds())
        lacks = tuple(what[:MOST_TEXT] for what in list(self._lacks.values())[:_MOST_LACKS]) if sees else ()
        event = SourceReported(at, cluster, NAME, (TOPIC,) if sees else (), period, lacks)
        return self._context.codec.encode_for_all(event, topic="cluster-changes", key=cluster, source=SOURCE)

    def _lack(self, about: str, what: str = "") -> None:
        """Note in log and reports that the source goes on without something; an empty `what` ends that."""
        if what:
            self._lacks[about] = what
            self._log_once(about, what)
        else:
            self._lacks.pop(about, None)
            self._logged.pop(about, None)

    def _log_once(self, about: str, what: str) -> None:
        """One line for each change."""
        if self._logged.get(about) != what:
            self._logged[about] = what
            _log.warning("the asg source goes on without something", about=about, reason=what)


def _mismatch(ours: GroupBounds, group: AutoScalingGroup | None) -> str:
    """The fault in a group's configured bounds; empty if there is none."""
    if group is None:
        return f"group '{ours.name}', which aws.groups names, is not in AWS: check its name and aws.region"
    if ours.least >= group.least and ours.most <= group.most:
        return ""
    allowed = f"AWS allows {group.least} to {group.most} and refuses what is beyond"
    return f"group '{ours.name}' may have {ours.least} to {ours.most} nodes by aws.groups; {allowed}"
