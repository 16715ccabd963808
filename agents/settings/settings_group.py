"""The base of every group of settings: frozen, and an unknown name is an error."""

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """One group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")
