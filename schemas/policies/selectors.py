"""Label selectors: what the labels of a pod must be."""

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """Kubernetes' operators for label requirements."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label of a pod must be. A selector is several of these, all to be met; an empty one matches every pod."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Whether a label with this value meets it. None is a missing label, which NotIn accepts, as in Kubernetes."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                # Kubernetes takes a missing label for one with another value.
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
