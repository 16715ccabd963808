"""Tokens for Amazon MSK, signed with made-up credentials: what is in them, when they are made anew, and who gets them."""

import asyncio
import base64
import builtins
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import faust
import pytest
from aiokafka.conn import OAuthAuthenticator
from kafka.net.sasl import get_sasl_mechanism

from agents.app import kafka_client_options
from agents.settings import log_factory
from agents.settings.all_settings import LogSettings, SecuritySettings, Settings
from streams.errors import BadInput, LogUnavailable
from streams.log.kafka_connection import MECHANISM, KafkaConnection, MskTokens

KEY = "AKIAMADEUP"


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that this machine knows of AWS, and credentials that nobody has."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made up")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")


def signed(token: str) -> tuple[str, dict[str, list[str]]]:
    """The host of the signed request, and its parameters."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return url.netloc, parse_qs(url.query)


def connection(**security: Any) -> KafkaConnection:
    given = SecuritySettings(**{"protocol": "SASL_SSL", "mechanism": MECHANISM, "region": "eu-west-1", **security})
    return log_factory.connection(Settings(log=LogSettings(brokers="b-1:9098", security=given)))


def test_a_token_is_a_request_to_connect_signed_for_the_region() -> None:
    host, asked = signed(MskTokens("eu-west-1").token())
    assert host == "kafka.eu-west-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith(f"{KEY}/")
    assert asked["X-Amz-Credential"][0].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert asked["X-Amz-Expires"] == ["900"]


def test_a_token_is_given_out_again_until_it_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = MskTokens("eu-west-1")
    first = tokens.token()
    assert tokens.token() is first
    later = time.time_ns() + 800 * 10**9
    monkeypatch.setattr("streams.log.kafka_connection.time.time_ns", lambda: later)
    assert tokens.token() is not first


def test_both_clients_send_it() -> None:
    where = connection()
    token = where.options()["sasl_oauth_token_provider"].token()  # type: ignore[attr-defined]  # options are objects
    ours = get_sasl_mechanism("OAUTHBEARER")(**where.options())
    assert where.options()["sasl_mechanism"] == "OAUTHBEARER"
    assert f"auth=Bearer {token}".encode() in ours.auth_bytes()
    theirs = kafka_client_options.options(where)
    assert theirs["sasl_mechanism"] == "OAUTHBEARER"
    sent = asyncio.run(_first_message(theirs["sasl_oauth_token_provider"]))
    assert f"auth=Bearer {token}".encode() in sent
    credentials = kafka_client_options.credentials(where)
    assert isinstance(credentials, faust.auth.OAuthCredentials)
    assert credentials.protocol.value == "SASL_SSL"
    assert asyncio.run(credentials.oauth_cb.token()) == token


async def _first_message(provider: object) -> bytes:
    message, _ = await OAuthAuthenticator(sasl_oauth_token_provider=provider).step(None)
    return bytes(message)


def test_without_the_package_the_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("aws_msk_iam_sasl_signer"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match=r"is 'AWS_MSK_IAM', .* not installed: pip install -e '\.\[msk\]'"):
        MskTokens("eu-west-1").token()


def test_without_an_identity_the_sentence_says_where_one_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(LogUnavailable, match=r"in region 'eu-west-1': there are no credentials\. Give the process an identity"):
        MskTokens("eu-west-1").token()


@pytest.mark.parametrize("wrong", [{"protocol": "SASL_PLAINTEXT"}, {"region": ""}])
def test_settings_that_do_not_go_together_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"'AWS_MSK_IAM' goes with log\.security\.protocol SASL_SSL .* port 9098"):
        connection(**wrong)
