"""A broker that authenticates its clients and authorizes each request: TLS, SCRAM-SHA-512 and access rules.

Every client connection is SASL_SSL. The controller's port, which clients never use, demands a certificate of the same authority.
Access rules (ACLs) are made later, through the admin user; without a rule nothing is allowed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streams.errors import BadInput

MECHANISM = "SCRAM-SHA-512"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PASSWORD = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """Who the broker is, and who may talk to it.

    `keystore` is one PEM file with the broker's key (PKCS #8, no pass phrase) and its certificate, `authority` the PEM file
    of the certificate that signed it, `subject` the certificate's distinguished name, for instance `CN=broker`. `users` maps
    names to passwords; `admin` is the one of them that may do everything.
    """

    keystore: Path
    authority: Path
    subject: str
    admin: str
    users: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        """Raises BadInput for an admin without a password, and for characters that are special in Kafka's files."""
        if self.admin not in self.users:
            raise BadInput(f"the broker's admin '{self.admin}' is not among its users")
        for name, password in self.users.items():
            if not _NAME.fullmatch(name) or not _PASSWORD.fullmatch(password):
                raise BadInput(f"name or password of the broker's user '{name}' have other characters than A-Z a-z 0-9 . _ -")

    def properties(self) -> dict[str, str]:
        """The security settings for server.properties, with the admin's password, which the broker itself logs in with."""
        login = f'username="{self.admin}" password="{self.users[self.admin]}"'
        jaas = f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};"
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": jaas,
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keystore.as_posix(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.as_posix(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{self.admin};User:{self.subject}",
        }

    def format_arguments(self) -> list[str]:
        """Arguments for the format tool, so that the users exist from the first start on."""
        users = (f"{MECHANISM}=[name={name},password={password}]" for name, password in self.users.items())
        return [argument for user in users for argument in ("--add-scram", user)]
