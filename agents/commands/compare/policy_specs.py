"""Policies as they are named on a command line: `default`, `upstream`, `adaptive`, `recorded`, `oracle`, settings, or code.

`default` is what the settings say; `adaptive` is the policy that comes with Ullage;
`upstream` is the Vertical Pod Autoscaler's rules with its defaults; `recorded` are the
recording's own requests; `oracle` knows each hour in advance. A YAML file has settings as `--config` takes them. A Python file,
or the name of an installed entry point, is a policy written as code. Settings stand in one word,
`p97:vertical.target_cpu_percentile=0.97,vertical.margin=0.1`, with the policy's name before a colon or without one.
Any of them that decides may say how pods of a usage trace are changed: `adaptive@in-place`, `adaptive@recreate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agents.commands.compare.what_if_command import settings_of
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.vertical.vertical_settings import ADAPTIVE, VerticalSettings
from agents.policies import policy_sources
from agents.settings.all_settings import Settings
from agents.settings.loading import load
from schemas.policies.vertical import UpdateMode
from streams.errors import BadInput

SIDES = {"recorded": "own", "oracle": "oracle"}
"""Policies that no stage decides."""
BASELINE = "upstream"
MODES = {"in-place": UpdateMode.IN_PLACE, "recreate": UpdateMode.RECREATE}


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """One policy. `settings` is None for one of SIDES; `mode` is how pods are changed, where the name says it."""

    name: str
    settings: Settings | None
    mode: UpdateMode | None = None


def read(texts: Sequence[str], base: Settings, given: Sequence[str]) -> list[PolicySpec]:
    """The policies. `given` are the settings of the command line, which hold for all but `upstream`. Raises BadInput."""
    specs = [_spec(text, base, given) for text in texts]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"two policies are called '{name}'; give one another name, as in 'mine:vertical.margin=0.2'")
    return specs


def _spec(text: str, base: Settings, given: Sequence[str]) -> PolicySpec:
    policy, _, mode = text.rpartition("@")
    if policy and mode in MODES:
        if policy in SIDES:
            raise BadInput(f"'{policy}' changes no pods, so it has no '@{mode}'")
        return replace(_policy(policy, base, given), name=text, mode=MODES[mode])
    return _policy(text, base, given)


def _policy(text: str, base: Settings, given: Sequence[str]) -> PolicySpec:
    if text in SIDES:
        return PolicySpec(text, None)
    if text == "default":
        return PolicySpec(text, base)
    if text == BASELINE:
        # without the command line's settings: a baseline that moves with --set is none
        updates = UpdateSettings(profile=UpdaterProfile.UPSTREAM)
        return PolicySpec(text, base.model_copy(update={"vertical": VerticalSettings(), "updates": updates}))
    if text.endswith((".yaml", ".yml")):
        return PolicySpec(Path(text).stem, load(file=Path(text), flags=_flags(given)).settings)
    if text == ADAPTIVE or text.endswith(".py") or text in policy_sources.offered():
        named = Path(text).stem if text.endswith(".py") else text
        return PolicySpec(named, base.model_copy(update={"vertical": replace(base.vertical, policy=text)}))
    if "=" in text:
        head, colon, rest = text.partition(":")
        name, settings = (head, rest) if colon and "=" not in head else (text, text)
        return PolicySpec(name, load(flags=_flags([*given, *settings.split(",")])).settings)
    names = ", ".join(("default", BASELINE, ADAPTIVE, *SIDES, *policy_sources.offered()))
    raise BadInput(
        f"'{text}' is no policy: give {names}, a settings file (.yaml), a policy as code (.py), "
        "or settings such as vertical.margin=0.3"
    )


def _flags(given: Sequence[str]) -> dict[str, str]:
    pairs = (item.partition("=") for item in settings_of(given))
    return {name.strip(): value for name, _, value in pairs}
