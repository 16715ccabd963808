"""Protects a group's instances from scale-in, so that only our decisions end one.

An instance is protected when we act on its group; a group can also be configured to start its instances protected
(docs/nodes.md). A failure here stops nothing.
"""

import structlog

from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.group_responses import AutoScalingGroup
from streams.errors import EdgeError

_log = structlog.get_logger(__name__)


def protect(aws: AwsClient, group: AutoScalingGroup) -> None:
    """Protect the group's instances that are in service and not protected yet."""
    bare = [instance.id for instance in group.instances if instance.lifecycle == "InService" and not instance.protected]
    if not bare:
        return
    try:
        aws.protect(group.name, bare, protected=True)
    except EdgeError as error:
        _log.warning("instances are not protected from their group", group=group.name, error=str(error))
