"""How the worker's clients reach Kafka: our connection settings as options of aiokafka and of Faust. Opens nothing."""

import asyncio
from typing import Any

import aiokafka.consumer.fetcher
import faust
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider

from streams.log import record_batches
from streams.log.kafka_connection import OAUTH, KafkaConnection, MskTokens

# At import, so that no client of this process can read a batch before it is guarded.
record_batches.guard(aiokafka.consumer.fetcher)
COMPRESSION = "zstd"
"""How a worker compresses. Of what lz4 leaves, 100 decisions in a batch take 58 %, seven 72 %, and checkpoints 86 %.

aiokafka's lz4 takes four times as long where there is much. One decision alone takes 9 µs more to write, and again to read.
"""


def options(where: KafkaConnection) -> dict[str, Any]:
    """The options of every aiokafka client."""
    return {
        "bootstrap_servers": where.addresses,
        "client_id": where.client_id,
        "security_protocol": where.security_protocol,
        "ssl_context": where.ssl_context(),
        "sasl_mechanism": OAUTH if where.msk else where.sasl_mechanism or "PLAIN",
        "sasl_plain_username": where.sasl_username,
        "sasl_plain_password": where.sasl_password,
        "sasl_oauth_token_provider": _AwaitedTokens(where.msk) if where.msk else None,
    }


def producer(where: KafkaConnection, *, batch: int) -> AIOKafkaProducer:
    """A producer, not connected yet. What it acknowledged is durable, once. `batch`: bytes of a partition that go out at once."""
    return AIOKafkaProducer(
        **options(where),
        acks="all",
        enable_idempotence=True,
        compression_type=COMPRESSION,
        max_request_size=8 << 20,
        max_batch_size=batch,
    )


class _AwaitedTokens(AbstractTokenProvider):  # type: ignore[misc]  # the client ships no types
    """Tokens of Amazon MSK for clients with an event loop."""

    def __init__(self, tokens: MskTokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        """A token that stays valid for a while; signing may ask AWS first, which takes time."""
        return await asyncio.to_thread(self._tokens.token)


def urls(where: KafkaConnection) -> list[str]:
    """The brokers as URLs, which Faust expects."""
    return [f"kafka://{address}" for address in where.addresses]


def credentials(where: KafkaConnection) -> Any:
    """The credentials for Faust, or None for a Kafka that asks for none."""
    if where.msk is not None:
        return faust.OAuthCredentials(oauth_cb=_AwaitedTokens(where.msk), ssl_context=where.ssl_context())
    if where.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=where.sasl_username,
            password=where.sasl_password,
            mechanism=where.sasl_mechanism or "PLAIN",
            ssl_context=where.ssl_context(),
        )
    context = where.ssl_context()
    return None if context is None else faust.SSLCredentials(context)
