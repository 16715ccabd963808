"""Errors in fields of an object, and the status that refuses it, worded as Kubernetes words them.

apimachinery: pkg/util/validation/field/errors.go, and NewInvalid in pkg/api/errors/errors.go.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_LONGEST_VALUE = 300
"""Characters of a wrong value that are shown."""


class Fault(Enum):
    """The kinds of faults, each with Kubernetes' code and text."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error. `value` is the offending one as it is to be shown; None where the fault shows none."""

    fault: Fault
    path: str
    detail: str = ""
    value: str | None = None

    @property
    def body(self) -> str:
        """The message without the path."""
        shown = self.fault.value[1] if self.value is None else f"{self.fault.value[1]}: {self.value}"
        return f"{shown}: {self.detail}" if self.detail else shown

    def __str__(self) -> str:
        """The message."""
        return f"{self.path}: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(Fault.REQUIRED, path, detail)


def invalid(path: str, value: float | str, detail: str) -> FieldError:
    """A value is out of its bounds."""
    return FieldError(Fault.INVALID, path, detail, _shown(value))


def not_supported(path: str, value: str, supported: Sequence[str]) -> FieldError:
    """A value is none of the known ones."""
    return FieldError(Fault.NOT_SUPPORTED, path, f"supported values: {', '.join(map(_quoted, supported))}", _quoted(value))


def forbidden(path: str, detail: str) -> FieldError:
    """A field may not be used as things are."""
    return FieldError(Fault.FORBIDDEN, path, detail)


def too_many(path: str, actual: int, most: int) -> FieldError:
    """A list is too long."""
    return FieldError(Fault.TOO_MANY, path, f"must have at most {most} {'item' if most == 1 else 'items'}", str(actual))


def internal(detail: str) -> FieldError:
    """The object as a whole cannot be read."""
    return FieldError(Fault.INTERNAL, ".", detail)


def refusal(errors: Sequence[FieldError], *, group: str, kind: str, name: str) -> dict[str, object]:
    """The status that says why an object is refused: 422, with all errors as causes."""
    # Kubernetes' aggregate says each message once.
    messages = list(dict.fromkeys(map(str, errors)))
    # Only several messages get brackets, in Kubernetes' own aggregate as here.
    listed = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = [{"reason": error.fault.value[0], "message": error.body, "field": error.path} for error in errors]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{f'{kind}.{group}' if group else kind} {_quoted(name)} is invalid: {listed}",
        "reason": "Invalid",
        "details": {field: value for field, value in details.items() if value},
        "code": 422,
    }


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return str(int(value)) if value == int(value) else repr(value)


def _quoted(value: str) -> str:
    return json.dumps(value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…", ensure_ascii=False)
