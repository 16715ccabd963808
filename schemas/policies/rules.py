"""The rules that a stage decides by: in the log once, because all its decisions share them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from schemas.policies.authors import Author

RuleValue = bool | int | float | str | None
"""What one setting of a stage can be."""


@dataclass(frozen=True, slots=True)
class StageRulesChanged:
    """From the turn that takes this in, a stage decides by these settings and this version of the program's rules.

    `program` counts the changes of the stage's code that change decisions. `settings` are all settings of the stage by name.
    `version` follows from the other three (`rules_version`), so that equal rules are recognised; decisions cite it with the place
    of the record.
    """

    at: datetime
    stage: str
    program: int
    settings: Mapping[str, RuleValue]
    version: str
    by: Author | None = None
    """Who applied them; for a log without rules, whose settings the first worker had."""

    @property
    def key(self) -> str:
        """`stage/name`, the record key."""
        return f"stage/{self.stage}"  # no workload, VPA or policy target has such a key: those name a cluster first


def rules_version(stage: str, program: int, settings: Mapping[str, RuleValue]) -> str:
    """16 hexadecimal digits that depend on the content alone, not on the order of `settings`."""
    content = json.dumps([stage, program, dict(settings)], sort_keys=True, separators=(",", ":"))
    return blake2b(content.encode(), digest_size=8).hexdigest()
