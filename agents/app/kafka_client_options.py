"""How the worker's clients reach Kafka: our connection settings as options of aiokafka and of Faust. Opens nothing."""

import ssl
from typing import Any

import faust

from streams.log.kafka_connection import KafkaConnection


def options(where: KafkaConnection) -> dict[str, Any]:
    """The options of every aiokafka client."""
    return {
        "bootstrap_servers": where.options()["bootstrap_servers"],
        "client_id": where.client_id,
        "security_protocol": where.security_protocol,
        "ssl_context": _context(where),
        "sasl_mechanism": where.sasl_mechanism or "PLAIN",
        "sasl_plain_username": where.sasl_username,
        "sasl_plain_password": where.sasl_password,
    }


def urls(where: KafkaConnection) -> list[str]:
    """The brokers as URLs, which Faust expects."""
    return [f"kafka://{broker.strip()}" for broker in where.brokers.split(",") if broker.strip()]


def credentials(where: KafkaConnection) -> Any:
    """The credentials for Faust, or None for a Kafka that asks for none."""
    if where.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=where.sasl_username,
            password=where.sasl_password,
            mechanism=where.sasl_mechanism or "PLAIN",
            ssl_context=_context(where),
        )
    context = _context(where)
    return None if context is None else faust.SSLCredentials(context)


def _context(where: KafkaConnection) -> ssl.SSLContext | None:
    if not where.security_protocol.endswith("SSL"):
        return None
    context = ssl.create_default_context(cafile=where.ssl_cafile)
    context.check_hostname = where.ssl_check_hostname
    if where.ssl_certfile:
        context.load_cert_chain(where.ssl_certfile, where.ssl_keyfile)
    return context
