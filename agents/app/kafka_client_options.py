"""How the worker's clients reach Kafka: our connection settings as options of aiokafka and of Faust. Opens nothing."""

from typing import Any

import aiokafka.consumer.fetcher
import faust
from aiokafka.record._crecords import default_records, legacy_records

from streams.log import bounded_unpacking
from streams.log.kafka_connection import KafkaConnection

bounded_unpacking.guard(aiokafka.consumer.fetcher, (default_records, legacy_records))


def options(where: KafkaConnection) -> dict[str, Any]:
    """The options of every aiokafka client."""
    return {
        "bootstrap_servers": where.addresses,
        "client_id": where.client_id,
        "security_protocol": where.security_protocol,
        "ssl_context": where.ssl_context(),
        "sasl_mechanism": where.sasl_mechanism or "PLAIN",
        "sasl_plain_username": where.sasl_username,
        "sasl_plain_password": where.sasl_password,
    }


def urls(where: KafkaConnection) -> list[str]:
    """The brokers as URLs, which Faust expects."""
    return [f"kafka://{address}" for address in where.addresses]


def credentials(where: KafkaConnection) -> Any:
    """The credentials for Faust, or None for a Kafka that asks for none."""
    if where.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=where.sasl_username,
            password=where.sasl_password,
            mechanism=where.sasl_mechanism or "PLAIN",
            ssl_context=where.ssl_context(),
        )
    context = where.ssl_context()
    return None if context is None else faust.SSLCredentials(context)
