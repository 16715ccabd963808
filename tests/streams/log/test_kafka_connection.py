"""How Kafka's settings are spelt, and what a person is told when Kafka answers with an error."""

from pathlib import Path

import aiokafka.errors
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, errors

from streams.errors import BadInput, LogUnavailable
from streams.log import kafka_log as adapter
from streams.log import kafka_reader
from streams.log.kafka_connection import KafkaConnection, split_address
from streams.log.kafka_errors import missing_right, translated_errors

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("client", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_every_client_knows_every_setting_that_it_is_given(client: type[KafkaAdminClient]) -> None:
    more = {KafkaProducer: adapter._PRODUCER, KafkaConsumer: kafka_reader._CONSUMER}.get(client, {})
    assert set(KafkaConnection("a:1").options()) | set(more) <= set(client.DEFAULT_CONFIG)


def test_security_is_handed_through_and_brokers_are_split() -> None:
    where = KafkaConnection("a:1, b:2,", "SASL_PLAINTEXT", "SCRAM-SHA-512", "ullage", "s3cret")
    options = where.options()
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert [options[name] for name in ("security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password")] == [
        "SASL_PLAINTEXT",
        "SCRAM-SHA-512",
        "ullage",
        "s3cret",
    ]
    assert options["ssl_context"] is None


def test_a_password_does_not_show_when_a_connection_is_printed() -> None:
    assert "hunter2" not in repr(KafkaConnection("b:9092", sasl_password="hunter2"))  # noqa: S106  # made up


def test_a_file_of_authorities_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"log\.security\.ca '.*nothing\.pem' cannot be used: No such file"):
        KafkaConnection("a:1", "SSL", ssl_cafile=str(tmp_path / "nothing.pem")).ssl_context()
    (tmp_path / "text.pem").write_text("no certificate", encoding="utf-8")
    with pytest.raises(BadInput, match=r"log\.security\.ca '.*text\.pem' cannot be used"):
        KafkaConnection("a:1", "SSL", ssl_cafile=str(tmp_path / "text.pem")).ssl_context()


@pytest.mark.parametrize(
    ("broker", "address"),
    [("kafka:9094", ("kafka", 9094)), ("kafka", ("kafka", 9092)), ("[::1]:9094", ("::1", 9094)), ("[::1]", ("::1", 9092))],
)
def test_an_address_without_a_port_has_the_usual_one(broker: str, address: tuple[str, int]) -> None:
    assert split_address(broker) == address


def _said(error: Exception) -> str:
    with (
        pytest.raises(LogUnavailable) as caught,
        translated_errors(KafkaConnection(NOBODY), "appending 3 records", right="Write"),
    ):
        raise error
    said = str(caught.value)
    assert said.startswith(f"appending 3 records at Kafka '{NOBODY}' did not work: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errors.CorruptRecordError("crc"), "look at the brokers' own log"),
        (errors.UnknownTopicOrPartitionError("t"), "make the topics with `ullage topics apply`"),
        (errors.MessageSizeTooLargeError("big"), "run `ullage topics apply`, which sets max.message.bytes"),
        (errors.NotEnoughReplicasError("1"), "too few replicas are in sync"),
    ],
)
def test_an_error_of_the_client_says_what_was_done_where_the_answer_and_what_to_do(error: Exception, advice: str) -> None:
    said = _said(error)
    assert f"{type(error).__name__}: " in said
    assert advice in said


@pytest.mark.parametrize(
    "error", [errors.KafkaTimeoutError("late"), errors.KafkaConnectionError("x"), ConnectionResetError("gone")]
)
def test_an_error_about_the_connection_says_what_was_found_out_about_it(error: Exception) -> None:
    assert f"nobody answers at '{NOBODY}' (Connection refused): is Kafka running" in _said(error)
    assert "Start one with `ullage broker`" in _said(error)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (
            errors.TopicAuthorizationFailedError({"t.one", "t.two"}),
            "user 'ANONYMOUS' lacks the right Write on topic 't.one', 't.two'",
        ),
        (errors.TopicAuthorizationFailedError("t"), "lacks the right Write on topic 't'"),
        (errors.GroupAuthorizationFailedError("g"), "lacks the right Write on group 'g'"),
        (errors.ClusterAuthorizationFailedError("not you"), "lacks the right Write on the cluster"),
        (aiokafka.errors.TopicAuthorizationFailedError({"t"}), "lacks the right Write on topic 't'"),
    ],
)
def test_a_missing_right_names_the_user_the_right_and_the_object(error: Exception, what: str) -> None:
    assert what in (missing_right(KafkaConnection(NOBODY), error, right="Write"))


def test_our_own_errors_pass_as_they_are() -> None:
    with pytest.raises(BadInput, match="mine"), translated_errors(KafkaConnection(NOBODY), "reading"):
        raise BadInput("mine")
