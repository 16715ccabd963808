"""Runs `ullage source asg`: polls AWS for the node groups and publishes what changed, until stopped.

Of several instances the holder of the Lease works, and the others stand by.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.logic.nodes.aws import group_options, node_templates
from agents.logic.nodes.aws.node_templates import (
    InstanceRequirements,
    InstanceType,
    LaunchSource,
    LaunchTemplate,
    MixedPolicy,
    NodegroupAnswer,
    TemplateSource,
)
from agents.processes.process_lease import Turns, holder_lease
from agents.processes.process_telemetry import fitting_log, telemetry_for
from agents.processes.signals import pause, until_stopped
from agents.processes.source_clock import event_time
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.settings.consumer_settings import AwsSettings
from agents.telemetry import DependencyStatus, NodeGroupMetrics
from agents.terminal.output import note
from schemas.facts.nodes import NodeTaint, NodeTemplateSeen
from schemas.units import Seconds
from streams.clients.aws import ec2_instances
from streams.clients.aws.aws_client import AwsClient, AwsOptions, connect
from streams.clients.aws.ec2_instances import InstancePrices, InstanceSize
from streams.clients.aws.group_responses import AutoScalingGroup, TypeRequirements
from streams.errors import BadInput, EdgeError, LogUnavailable
from streams.log_context import LogContext
from streams.sources.asg.asg_source import NAME, AsgSource, GroupBounds, GroupSelection
from streams.sources.asg.launch_lookups import LaunchDetails

_STANDBY = 1.0
"""Seconds between two looks at whether another instance is still at work."""


def run(settings: Settings) -> None:
    """Publish until stopped. The process is ready once AWS has answered, and not while it does not."""
    ours, topics, aws = settings.aws, log_factory.topics(settings), DependencyStatus("AWS", not_yet="AWS was not asked yet")
    chosen, client, turns = selection(ours), connect_aws(ours), Turns(NAME, holder_lease("source-asg", settings))

    def reasons() -> Sequence[str]:
        return [] if turns.stands_by else aws.reasons()

    with until_stopped(), telemetry_for(NAME, settings, reasons) as telemetry, fitting_log(settings) as log, turns.taken():
        metrics = NodeGroupMetrics(telemetry.registry, topics, NAME)
        context = LogContext.of(telemetry.observe(log, metrics), topics, settings.cluster.name)
        source = AsgSource(client, context, chosen, node_template)
        note(f"asking {client.address} for the node groups of cluster '{context.cluster}'")
        while True:
            begun, wait = time.monotonic(), _STANDBY
            if turns.at_work():
                # sooner while a group has not what it wants, so that a failure is known within seconds
                wait = ours.refresh_seconds if _poll(source, settings, aws) else ours.busy_seconds
                metrics.dropped(source.dropped)
            # from the beginning of the look, so that slow answers do not stretch the period
            pause(max(0.0, begun + wait - time.monotonic()))


def connect_aws(ours: AwsSettings) -> AwsClient:
    """AWS as the settings say. Raises BadInput."""
    return connect(AwsOptions(ours.region, ours.endpoint, Seconds(ours.timeout_seconds)))


def selection(ours: AwsSettings) -> GroupSelection:
    """The groups that the settings choose. Raises BadInput for an invalid specification, and for none at all."""
    if not ours.groups and not ours.discovery:
        raise BadInput("no node group is chosen: set aws.groups (min:max:name) or aws.discovery (asg:tag=KEY,KEY=VALUE)")
    try:
        explicit = [GroupBounds(spec.name, spec.least, spec.most) for spec in map(group_options.explicit, ours.groups)]
    except group_options.SpecError as error:
        raise BadInput(f"aws.groups: {error}; a group is written min:max:name, as 1:10:web") from error
    _once_each(explicit)
    try:
        tags = group_options.discovery(ours.discovery)
    except group_options.SpecError as error:
        raise BadInput(f"aws.discovery: {error}") from error
    prices = InstancePrices() if ours.prices is None else ec2_instances.read_prices(Path(ours.prices))
    return GroupSelection(tuple(explicit), tags, prices, ours.interruption_queue)


def _once_each(explicit: Sequence[GroupBounds]) -> None:
    """Raises BadInput for a group that is named twice."""
    entries: dict[str, list[str]] = {}
    for group in explicit:
        entries.setdefault(group.name, []).append(f"'{group.least}:{group.most}:{group.name}'")
    for name, named in entries.items():
        if len(named) > 1:
            # only one pair of bounds can count, and nobody could say which
            raise BadInput(f"aws.groups: {' and '.join(named)} are entries for one group, '{name}': leave one of them")


def node_template(group: AutoScalingGroup, launch: LaunchDetails, sizes: Mapping[str, InstanceSize]) -> NodeTemplateSeen:
    """How an empty new node of a group would look. Raises ValueError with a sentence on why that is unknown."""
    eks = launch.managed
    answer = (
        None
        if eks is None
        else NodegroupAnswer(eks.labels, eks.tags, eks.taints, eks.disk_size, eks.ami_type, eks.capacity_type, eks.version)
    )
    source = TemplateSource(group.name, group.zones, group.tags, _launch_source(group, launch), answer)
    node_templates.check_policy(source.launch)
    wanted = node_templates.instance_type(source)
    known = sizes.get(wanted)
    types = {} if known is None else {wanted: InstanceType(wanted, known.vcpus, known.memory_mib, known.gpus, known.architecture)}
    made = node_templates.node(source, types, f"{group.name}-template")
    taints = tuple(NodeTaint(taint.key, taint.value, taint.effect) for taint in made.taints)
    unread = tuple(node_templates.unread_tags(group.tags))
    return NodeTemplateSeen(dict(made.labels), taints, dict(made.capacity), dict(made.allocatable), unread)


def _launch_source(group: AutoScalingGroup, launch: LaunchDetails) -> LaunchSource:
    """AWS's launch details, in the form of the rules."""
    if launch.failure:
        return LaunchSource(failure=launch.failure)
    template, version = None, launch.template
    if version is not None:
        demanded = _requirements(version.requirements)
        template = LaunchTemplate(version.instance_type, version.image, demanded, launch.fitting)
    if group.mixed is None:
        return LaunchSource(configured=launch.configured, template=template)
    name = "" if group.mixed.template is None else group.mixed.template.key
    demanded = _requirements(group.mixed.requirements)
    return LaunchSource(mixed=MixedPolicy(template, name, group.mixed.types, demanded, launch.fitting))


def _requirements(demanded: TypeRequirements | None) -> InstanceRequirements | None:
    if demanded is None:
        return None
    return InstanceRequirements(
        demanded.vcpus, demanded.memory_mib, demanded.accelerators, demanded.manufacturers, demanded.kinds
    )


def _poll(source: AsgSource, settings: Settings, aws: DependencyStatus) -> bool:
    """Poll once; whether all is quiet. After a failure the next poll tries again."""
    try:
        settled = source.poll(event_time(settings))
    except EdgeError as error:
        aws.failed(str(error))
        return True
    except LogUnavailable:  # the telemetry of the log reports that
        return True
    aws.answered()
    return settled
