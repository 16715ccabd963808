"""Which column of a usage trace holds what: found by name, with the unit that the name states.

Traces come from many people. If a required column is missing, BadInput lists the accepted names and those in the file. A unit is
never guessed from values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streams.errors import BadInput

_CPU = {"cores": 1.0, "millicores": 1e-3, "milli": 1e-3, "m": 1e-3}
_MEMORY = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_TIME = {"timestamp_s": 1.0, "timestamp_ms": 1e-3, "time_s": 1.0, "time_ms": 1e-3, "timestamp": 1.0, "time": 1.0}


def _with_units(words: Iterable[str], units: Mapping[str, float]) -> dict[str, float]:
    """`cpu_cores`, `cpu_millicores` and so on, best first, with the factor to our unit."""
    return {f"{word}_{unit}": factor for word in words for unit, factor in units.items()}


def _peaks(words: Iterable[str], units: Mapping[str, float]) -> dict[str, float]:
    """The highest use within the row's window, as in "CPU cores max" or "CPU max cores"; with the factor to our unit."""
    names = ((word, unit) for word in words for unit in units)
    return {name: units[unit] for word, unit in names for name in (f"{word}_{unit}_max", f"{word}_max_{unit}")}


def _names(*names: str) -> dict[str, float]:
    return dict.fromkeys(names, 1.0)


ALIASES: Mapping[str, Mapping[str, float]] = {
    "container": _names("container_id", "container", "container_name", "task_id", "vm_id"),
    "time": _TIME,
    "cores": _with_units(("cpu", "cpu_usage", "cpu_used"), _CPU),
    "memory": _with_units(("memory", "mem", "memory_usage", "memory_used"), _MEMORY),
    "cores_max": _peaks(("cpu", "cpu_usage", "cpu_used"), _CPU),
    "memory_max": _peaks(("memory", "mem", "memory_usage", "memory_used"), _MEMORY),
    "workload": _names("workload", "deployment", "service", "job_id", "job"),
    "kind": _names("workload_kind"),
    "pod": _names("pod", "pod_id", "pod_name"),
    "namespace": _names("namespace"),
    "cpu_request": _with_units(("cpu_request", "cpu_requested", "cpu_provisioned"), _CPU),
    "memory_request": _with_units(("memory_request", "memory_requested", "memory_provisioned"), _MEMORY),
    "cpu_limit": _with_units(("cpu_limit",), _CPU),
    "memory_limit": _with_units(("memory_limit",), _MEMORY),
    "oom_kills": _names("oom_kills", "oom_killed"),
}
"""By what a column holds: the names that mean it, best first, each with the factor that makes it cores, bytes or seconds."""

NEEDED = ("container", "time", "cores", "memory")
TEXTS = ("container", "workload", "pod", "namespace", "kind")
REQUESTS = ("cpu_request", "memory_request", "cpu_limit", "memory_limit")


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column of the file, and the factor that converts it to our unit."""

    name: str
    factor: float

    @property
    def quoted(self) -> str:
        """The name as an SQL identifier."""
        return '"' + self.name.replace('"', '""') + '"'


def find_columns(present: Sequence[str], file: str) -> dict[str, TraceColumn]:
    """The columns of a trace by what they hold. Raises BadInput when one of NEEDED is missing."""
    there = {name.lower(): name for name in present}
    columns = {
        what: TraceColumn(there[name], factor)
        for what, aliases in ALIASES.items()
        for name, factor in [next(((n, f) for n, f in aliases.items() if n in there), ("", 0.0))]
        if name
    }
    for what in NEEDED:
        if what not in columns:
            would_do = ", ".join(f"'{name}'" for name in ALIASES[what])
            are_there = ", ".join(f"'{name}'" for name in present)
            raise BadInput(f"'{file}' has no column for {what}: one of {would_do} must be there, and the file has {are_there}")
    return columns
