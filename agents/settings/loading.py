"""Where settings come from: defaults < YAML file < environment < flags, each value with its origin.

`ullage.yaml` in the current folder is read when it is there, or the file that `--config` or ULLAGE_CONFIG names.
`ULLAGE_LOG__BROKERS` sets `log.brokers`; `ULLAGE_LOG__BROKERS_FILE` reads it from a file, and such a value is never shown.
A list is written `shop,web` everywhere; in the file it may also be a YAML list. A name that is not a setting and a value that
makes no sense are BadInput: the sentence names the setting, the value and the place it came from.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, SecretStr, ValidationError

from agents.settings import all_settings, setting_texts
from agents.settings.all_settings import Settings
from streams import yaml_reader
from streams.errors import BadInput
from streams.url_redaction import without_password

FILE = Path("ullage.yaml")
DEFAULT = "default"
_PREFIX = "ULLAGE_"
_FROM_FILE = "_FILE"
_NO_SETTINGS = {
    "ULLAGE_CONFIG",
    "ULLAGE_PARENT",
    "ULLAGE_CACHE",
    "ULLAGE_SHARED",
    "ULLAGE_WHOLE_TRACES",
    "ULLAGE_REQUIRE_CONTROLPLANE",
}
"""Variables of ours that are no settings: for `--config`, child processes, the cache of downloads, and the tests."""
_HIDDEN = "(hidden)"
MOST_SECRET = 1 << 16
"""Bytes of a file that holds the value of one setting."""
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$")

Values = Mapping[str, object]
"""Dotted names to values."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, and for each dotted name where its value came from ("default" when nobody set it)."""

    settings: Settings
    origins: Mapping[str, str]
    hidden: frozenset[str]

    def shown(self) -> Iterator[tuple[str, str | None, str]]:
        """Name, value and origin of each setting; None for what is not set. Secrets are hidden."""
        for name, value in flat(_dump(self.settings)).items():
            secret = name in self.hidden or isinstance(value, SecretStr)
            shown = _HIDDEN if secret else None if value is None else without_password(str(value))
            yield name, shown, self.origins.get(name, DEFAULT)

    def handed_over(self) -> dict[str, object]:
        """What somebody has set, for a process that is to have the same settings. Secrets are among it."""
        values = flat(_dump(self.settings))
        return {name: _open(values[name]) for name in self.origins if values.get(name) is not None}


def _open(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def load(*, file: Path | None = None, flags: Mapping[str, str] | None = None) -> LoadedSettings:
    """The settings of this process. `flags` are dotted names to values. Raises BadInput."""
    defaults = flat(_dump(Settings()))
    merged: dict[str, object] = {}
    origins: dict[str, str] = {}
    hidden: set[str] = set()
    # later ones overwrite earlier ones, which is the whole order of precedence
    for name, value, origin, secret in [*_from_yaml(file), *_from_environment(defaults), *_from_flags(flags or {})]:
        if name in defaults and setting_texts.is_misread(value, defaults[name]):
            raise BadInput(_nonsense(name, _quoted(name, value, hidden), origin, setting_texts.MISREAD))
        merged[name], origins[name] = setting_texts.read(name, value, defaults), origin
        if secret:
            hidden.add(name)
    try:
        settings = Settings.model_validate(nested(merged))
    except ValidationError as error:
        raise BadInput("; ".join(_sentences(error, merged, origins, hidden))) from None
    # as somebody wrote them: a sentence about a value must show what stands in the file
    values = flat(_dump(settings)) | merged
    wrong = all_settings.reasons(settings)
    if sentences := [
        _nonsense(name, _quoted(name, values[name], hidden), origins.get(name, DEFAULT), why) for name, why in wrong
    ]:
        raise BadInput("; ".join(sentences))
    return LoadedSettings(settings, origins, frozenset(hidden))


def environment(values: Values) -> dict[str, str]:
    """Environment variables that give another process these values: `log.brokers` becomes `ULLAGE_LOG__BROKERS`."""
    return {_variable(name): setting_texts.written(value) for name, value in values.items()}


def _variable(name: str) -> str:
    return _PREFIX + name.replace(".", "__").upper()


def flat(tree: Mapping[str, object], before: str = "") -> dict[str, object]:
    """A tree as dotted names."""
    out: dict[str, object] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            out.update(flat(value, f"{before}{key}."))
        else:
            out[f"{before}{key}"] = value
    return out


def nested(values: Values) -> dict[str, object]:
    """Inverse of `flat`. Raises BadInput when one name is both a value and a branch."""
    tree: dict[str, object] = {}
    for name, value in values.items():
        *branch, leaf = name.split(".")
        at = tree
        for part in branch:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                raise BadInput(f"'{name}' cannot be set: '{part}' is a single value, not a group of settings")
            at = inner
        at[leaf] = value
    return tree


_Layer = Iterator[tuple[str, object, str, bool]]
"""Name, value, origin, and whether it must not be shown."""


def _from_yaml(file: Path | None) -> _Layer:
    path = file or FILE
    if file is None and not path.exists():
        return
    if not path.exists():
        raise BadInput(f"the settings file '{file}' does not exist")
    tree = yaml_reader.read_file(path, f"the settings file '{path}'")
    if not isinstance(tree, Mapping):
        if tree is None:
            return
        raise BadInput(f"the settings file '{path}' holds no groups of settings such as `log: {{brokers: ...}}`")
    for name, value in flat(tree).items():
        yield name, value, f"file {path}", False


def _from_environment(defaults: Values) -> _Layer:
    names = {_variable(name): name for name in defaults}
    # sorted, so that of several faults the same one is told each time
    for variable in sorted(os.environ):
        if not variable.upper().startswith(_PREFIX) or variable in _NO_SETTINGS or _is_service_link(variable):
            continue
        value, upper = os.environ[variable], variable.upper()
        if upper in names:
            yield names[upper], value, f"environment {variable}", False
        elif upper.removesuffix(_FROM_FILE) in names:
            yield names[upper.removesuffix(_FROM_FILE)], _secret(variable, value), f"file {value} ({variable})", True
        else:
            raise BadInput(_no_setting(variable, names))


def _is_service_link(variable: str) -> bool:
    """Whether Kubernetes put it there."""
    # enableServiceLinks, the default: each pod gets such variables for each Service of its namespace, and ours begin like
    # settings
    return any(f"{variable[: match.start()]}_SERVICE_HOST" in os.environ for match in _SERVICE_LINK.finditer(variable))


def _no_setting(variable: str, names: Mapping[str, str]) -> str:
    """The sentence for a variable that looks like ours. A group is set setting by setting, so its own variable is none."""
    branch, underscores, _ = variable.upper().removeprefix(_PREFIX).partition("__")
    why = f": there is no group '{branch.lower()}'" if underscores and branch.lower() not in Settings.model_fields else ""
    # one underscore for two is the usual slip
    squeezed = {name.replace("__", "_"): name for name in names}
    close = difflib.get_close_matches(variable.upper().replace("__", "_"), squeezed, n=1)
    return f"{variable} in the environment is not a setting{why}" + (f"; did you mean {squeezed[close[0]]}?" if close else "")


def _secret(variable: str, path: str) -> str:
    names = f"{variable} names the file '{path}', which"
    try:
        with Path(path).open("rb") as file:
            # one byte more than allowed shows that there are more
            read = file.read(MOST_SECRET + 1)
        if len(read) > MOST_SECRET:
            raise BadInput(f"{names} holds more than {MOST_SECRET} bytes: it is no setting")
        # most files end in a line break, which is no part of the value
        return read.decode("utf-8").strip()
    except OSError as error:
        raise BadInput(f"{names} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{names} is no text in UTF-8") from None


def _from_flags(flags: Mapping[str, str]) -> _Layer:
    for name, value in flags.items():
        yield name, value, f"flag {name}", False


def _sentences(error: ValidationError, values: Values, origins: Mapping[str, str], hidden: set[str]) -> Iterator[str]:
    for problem in error.errors():
        name = _known(".".join(str(part) for part in problem["loc"]), origins)
        place = origins.get(name) or next((o for n, o in origins.items() if n.startswith(f"{name}.")), "unknown place")
        if problem["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
            yield f"there is no setting '{name}' ({place}){_nearest(name)}"
        else:
            value, why = _quoted(name, values.get(name, problem["input"]), hidden), problem["msg"]
            if value == _HIDDEN and problem["type"] == "string_type":
                why = "it must be text: put it in quotes"
            if problem["type"] in {"float_parsing", "int_parsing"} and setting_texts.has_unit(problem["input"]):
                why = setting_texts.UNIT
            yield _nonsense(name, value, place, why[0].lower() + why[1:])


def _known(name: str, origins: Mapping[str, str]) -> str:
    """The setting that a problem is about: an entry of a list belongs to its list."""
    while name not in origins and "." in name and any(name.startswith(f"{setting}.") for setting in origins):
        name = name.rpartition(".")[0]
    return name


def _secrets(group: type[BaseModel], before: str = "") -> Iterator[str]:
    """The dotted names of settings that hold secrets."""
    for name, field in group.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _secrets(kind, f"{before}{name}.")
        elif kind is SecretStr or SecretStr in get_args(kind):
            yield f"{before}{name}"


def _quoted(name: str, value: object, hidden: set[str]) -> str:
    """A value for a sentence: no secret, nor a group of settings that has one, and no password of a URL."""
    if name in hidden or any(name in (secret, secret.rpartition(".")[0]) for secret in _secrets(Settings)):
        return _HIDDEN
    return f"'{_short(without_password(str(value)))}'"


def _short(text: str, most: int = 200) -> str:
    """Enough of a value to know it by."""
    # a file that was pasted by mistake must not fill the screen
    return text if len(text) <= most else f"{text[:most]} ... ({len(text)} characters)"


def _nonsense(name: str, value: str, place: str, why: str) -> str:
    return f"{name} is {value} ({place}), which makes no sense: {_short(why, 500)}"


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, flat(_dump(Settings())), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _dump(settings: Settings) -> dict[str, object]:
    return {name: _plain(getattr(settings, name)) for name in Settings.model_fields}


def _plain(part: object) -> object:
    if isinstance(part, BaseModel):
        return {name: _plain(getattr(part, name)) for name in type(part).model_fields}
    return asdict(part) if is_dataclass(part) and not isinstance(part, type) else part
