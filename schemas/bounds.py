"""The bounds of every amount, text, list and time in the log, in one place, and the sentence for what is beyond them.

A value beyond them is impossible in any cluster, or would make an event too large to write or too slow to fold. Each check yields
sentences that name the field and quote the value; the first one is the reason why a record is set aside.
"""

import math
from collections.abc import Iterator, Mapping, Sized
from datetime import datetime

from schemas.names import Amounts, Workload

MOST_CORES = 1e6
"""Cores of one container, pod or node."""
AMOUNT_LIMIT = 1e14
"""Upstream's largest amount, of millicores and of bytes: the upper bound of what has no history."""
MOST_RECOMMENDED_CORES = AMOUNT_LIMIT / 1000
"""Cores of a recommendation."""
MOST_BYTES = 1e16
"""Bytes of one container, pod or node."""
MOST_NUMBER = 1e16
"""Any other number: a period, a ratio, a count."""
MOST_INT32 = (1 << 31) - 1
"""What Kubernetes keeps in an int32: seconds of a startup boost, and its factor."""
MOST_TEXT = 4096
"""Characters of a name, a version or a reason that a tenant may choose."""
MOST_KEY = 1024
"""Characters of the key of a workload. It is a part of decisions' ids, which are texts, too; Kubernetes has 400 or so."""
MOST_CONTAINERS = 1000
"""Containers of one pod, container names of all pods of one workload, and entries of one policy."""
MOST_LABEL_SETS = 5000
"""Histograms of one workload: each container name has one for each set of labels that its pods have."""
MOST_ON_ONE_TARGET = 100
"""Objects of one kind, such as VPAs, on one target that are looked at whenever something about the target changes."""
MOST_ENTRIES = 1000
"""Entries of any list and any mapping of an event."""
MOST_NODES = 100_000
"""Nodes of one group."""
MOST_SENTENCE = 64 << 10
"""Characters of a reason, which may quote what somebody else answered."""
MOST_LABEL_TEXT = 16 << 10
"""Characters of all names and values of one object's labels or annotations together."""
MOST_OBJECT_BYTES = 256 << 10
"""Bytes of the event about one object of a tenant, such as a VPA."""
MOST_FORECASTS = 1000
"""Metrics that are forecast of the objects of one namespace; an object without any counts as one."""
MOST_CRONS = 1000
"""Crons of the objects of one namespace that are looked at."""
YEARS = range(1970, 2200)
"""A time outside of these is no time that a clock of ours shows."""
LAST_SECOND = 7_258_118_400.0
"""Seconds since the epoch at the end of YEARS."""


def kept_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels by name; none at all if they exceed the bound for one object."""
    size = sum(len(name) + len(value) for name, value in labels.items())
    # None rather than some: a selector must not match by a part of the labels, nor fail to match by the other part.
    return dict(sorted(labels.items())) if size <= MOST_LABEL_TEXT and len(labels) <= MOST_ENTRIES else {}


def number(path: str, value: float | None, most: float = MOST_NUMBER) -> Iterator[str]:
    """A number from 0 to `most`; None means absent and is accepted."""
    if value is None:
        return
    if not math.isfinite(value):
        yield f"{path} is {value}, which is not a finite number"
    elif value < 0:
        yield f"{path} is {value}; an amount cannot be negative"
    elif value > most:
        yield f"{path} is {value}; more than {most:g} is not possible"


def at_least(path: str, value: float | None, least: float, most: float = MOST_NUMBER) -> Iterator[str]:
    """A number from `least` to `most`; None means absent and is accepted."""
    yield from number(path, value, most)
    if value is not None and value < least:
        yield f"{path} is {value}; it must be at least {least:g}"


def amounts(path: str, value: Amounts) -> Iterator[str]:
    """CPU and memory of one thing."""
    yield from number(f"{path}.cpu", value.cpu, MOST_CORES)
    yield from number(f"{path}.memory", value.memory, MOST_BYTES)


def recommended(path: str, value: Amounts) -> Iterator[str]:
    """Amounts of a recommendation."""
    cpu, memory = value.cpu, value.memory
    # There are many of these, so a good one makes no generator for each amount.
    if (cpu is None or 0.0 <= cpu <= MOST_RECOMMENDED_CORES) and (memory is None or 0 <= memory <= MOST_BYTES):
        return
    yield from number(f"{path}.cpu", cpu, MOST_RECOMMENDED_CORES)
    yield from number(f"{path}.memory", memory, MOST_BYTES)


def workload(path: str, value: Workload) -> Iterator[str]:
    """A workload whose parts can be told apart in its key."""
    if not (value.cluster and value.namespace and value.kind and value.name) or value.key.count("/") != 3:  # noqa: PLR2004  # between four parts
        yield f"{path}: a workload key is 'cluster/namespace/Kind/name', not '{value.key[:MOST_KEY]}'"
    yield from text(path, value.key, MOST_KEY)


def workload_key(path: str, key: str) -> Iterator[str]:
    """The key of a workload."""
    yield from text(path, key, MOST_KEY)
    try:
        Workload.parse(key)
    except ValueError as error:
        yield f"{path}: {error}"


def text(path: str, value: str, most: int = MOST_TEXT) -> Iterator[str]:
    """A text of at most so many characters."""
    if len(value) > most:
        yield f"{path} has {len(value)} characters; more than {most} are not possible"


def count(path: str, value: Sized, most: int) -> Iterator[str]:
    """A list of at most so many entries."""
    if len(value) > most:
        yield f"{path} has {len(value)} entries; more than {most} are not possible"


def time(path: str, at: datetime) -> Iterator[str]:
    """A time that a clock of ours may show."""
    if at.year not in YEARS:
        yield f"{path} is {at.isoformat()}, a time that no clock of ours shows"


def second(path: str, at: float) -> Iterator[str]:
    """A time in seconds since the epoch that a clock of ours may show."""
    if not math.isfinite(at):
        yield f"{path} is {at}, which is no time"
    elif not 0.0 <= at < LAST_SECOND:
        yield f"{path} is {at:g} s, a time that no clock of ours shows"
