"""The settings of the external expander: the server that chooses among node groups, and how long it may take."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from agents.settings.settings_group import SettingsGroup


class ExpanderSettings(SettingsGroup):
    """The server of the expander `grpc`, which `ullage consumer expander` asks."""

    url: Annotated[str, Field(pattern=r"^([^\s/]+:\d{1,5})?$", max_length=300)] = ""
    """Where it answers, HOST:PORT; upstream's grpc-expander-url."""
    certificate: Path | None = None
    """The certificate of the server's authority, in PEM; upstream's grpc-expander-cert. Nobody is asked without TLS."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds that an answer may take, as upstream has it; how long pods wait for one is `nodes.expander_timeout`."""
