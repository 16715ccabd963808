"""Who a command says it is: the principal that Kafka asks for, else the user and host of the operating system."""

import getpass
import socket
from pathlib import Path

from pydantic import SecretStr

from agents.commands.change import operator_session
from agents.settings.all_settings import LogSettings, SecuritySettings, Settings
from schemas.policies.control import Author, KnownBy
from tests.support import review_server

ME = Author(f"{getpass.getuser()}@{socket.gethostname()}", KnownBy.SYSTEM)


def author_of(security: SecuritySettings) -> Author:
    return operator_session.author(Settings(log=LogSettings(security=security)))


def test_without_a_login_it_is_the_user_of_the_host() -> None:
    assert author_of(SecuritySettings()) == ME
    assert operator_session.author(Settings(log=LogSettings(kind="file"))) == ME


def test_a_login_is_the_principal() -> None:
    login = SecuritySettings(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="alice", password=SecretStr("x"))
    assert author_of(login) == Author("alice", KnownBy.KAFKA)


def test_a_certificate_of_the_client_is_the_principal_by_its_subject(tmp_path: Path) -> None:
    certificate = tmp_path / "user.crt"
    certificate.write_bytes(review_server.authorities())
    by = author_of(SecuritySettings(protocol="SSL", folder=tmp_path))
    assert by.known_by is KnownBy.KAFKA
    assert by.name.startswith("CN=")
    certificate.write_bytes(b"no certificate")
    assert author_of(SecuritySettings(protocol="SSL", folder=tmp_path)) == ME
