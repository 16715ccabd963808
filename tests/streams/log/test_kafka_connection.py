"""How Kafka's settings are spelt, and what a person is told when Kafka answers with an error."""

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, errors

from streams.errors import BadInput, LogUnavailable
from streams.log import kafka_log as adapter
from streams.log import kafka_reader
from streams.log.kafka_connection import KafkaConnection, translated_errors


@pytest.mark.parametrize("client", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_every_client_knows_every_setting_that_it_is_given(client: type[KafkaAdminClient]) -> None:
    more = {KafkaProducer: adapter._PRODUCER, KafkaConsumer: kafka_reader._CONSUMER}.get(client, {})
    assert set(KafkaConnection("a:1").options()) | set(more) <= set(client.DEFAULT_CONFIG)


def test_security_is_handed_through_and_brokers_are_split() -> None:
    where = KafkaConnection("a:1, b:2,", "SASL_SSL", "SCRAM-SHA-512", "ullage", "s3cret", ssl_cafile="ca.pem")
    options = where.options()
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert [options[name] for name in ("security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password")] == [
        "SASL_SSL",
        "SCRAM-SHA-512",
        "ullage",
        "s3cret",
    ]
    assert options["ssl_cafile"] == "ca.pem"


def test_a_password_does_not_show_when_a_connection_is_printed() -> None:
    assert "hunter2" not in repr(KafkaConnection("b:9092", sasl_password="hunter2"))  # noqa: S106  # made up


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errors.KafkaTimeoutError("late"), "Start one with `ullage broker`"),
        (errors.KafkaConnectionError("refused"), "Start one with `ullage broker`"),
        (ConnectionResetError("gone"), "is it running"),
        (errors.CorruptRecordError("crc"), "look at the brokers' own log"),
        (errors.UnknownTopicOrPartitionError("t"), "make the topics with `ullage topics apply`"),
        (errors.MessageSizeTooLargeError("big"), "run `ullage topics apply`, which sets max.message.bytes"),
        (errors.SaslAuthenticationFailedError("no"), "look at the user, the password and the rights"),
        (errors.TopicAuthorizationFailedError("t"), "look at the user, the password and the rights"),
        (errors.NotEnoughReplicasError("1"), "too few replicas are in sync"),
    ],
)
def test_an_error_of_the_client_says_what_was_done_where_the_answer_and_what_to_do(error: Exception, advice: str) -> None:
    with pytest.raises(LogUnavailable) as caught, translated_errors(KafkaConnection("a:1"), "appending 3 records"):
        raise error
    said = str(caught.value)
    assert said.startswith(f"appending 3 records at Kafka 'a:1' did not work ({type(error).__name__}: ")
    assert advice in said
    assert "\n" not in said


def test_our_own_errors_pass_as_they_are() -> None:
    with pytest.raises(BadInput, match="mine"), translated_errors(KafkaConnection("a:1"), "reading"):
        raise BadInput("mine")
