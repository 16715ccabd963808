"""What every branch of the settings tree is: frozen, and a name it does not know is an error."""

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """One branch of the tree."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
