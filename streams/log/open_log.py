"""Says why whoever reaches a Kafka can write into it, and so command: it asks for no login, or checks no rights."""

import ipaddress
from contextlib import suppress

from kafka import KafkaAdminClient
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.errors import ClusterAuthorizationFailedError, SecurityDisabledError

from streams.log.kafka_connection import KafkaConnection, split_address
from streams.log.kafka_errors import translated_errors


def why_open(where: KafkaConnection) -> str | None:
    """Why anybody may write, as a sentence; None when only those with rights may. Raises LogUnavailable and BadInput."""
    # Who is on this machine could do the same without a Kafka that nobody else can reach.
    if all(_is_loopback(split_address(broker)[0]) for broker in where.addresses):
        return None
    if not where.logs_in:
        return f"Kafka '{where.brokers}' lets us in without a login, so whoever reaches it can write what people decide"
    return None if checks_rights(where) else f"Kafka '{where.brokers}' checks no rights, so whoever logs in can write anything"


def checks_rights(where: KafkaConnection) -> bool:
    """Whether this Kafka has an authorizer. Raises LogUnavailable and BadInput."""
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, cluster)
    with translated_errors(where, "asking which rights it checks", right="nothing"):
        client = KafkaAdminClient(**where.options())
        try:
            client.describe_acls(wanted)
        except SecurityDisabledError:
            return False
        except ClusterAuthorizationFailedError:  # to refuse the question is to check rights
            return True
        finally:
            client.close()
    return True


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
