"""The text of the note that admission leaves on a pod, in an annotation.

Of all that a pod shows, only its note says that a patch of ours arrived, and what its owner had asked for. Anyone who may create
pods may also write such a text, so reading it never fails: what is no note of ours is none.
"""

import json
import math
from collections.abc import Mapping

from schemas import bounds, exact_quantity
from schemas.facts.pods import AdmissionNote, AmountsBefore
from schemas.names import Amounts
from schemas.units import Bytes, Cores

LONGEST = 64 << 10
"""Characters of a note. An object has 256 KiB for all its annotations."""
_NANO = 10**9
_LONGEST_OFFER = 64


def write(note: AdmissionNote) -> str:
    """The text: `{"offer":"4f1d…","before":{"app":{"requests":{"cpu":"800m"},"limits":{}}}}`."""
    before = {
        container.name: {"requests": _spelled(container.requests), "limits": _spelled(container.limits)}
        for container in note.before
    }
    return json.dumps({"offer": note.offer, "before": before}, separators=(",", ":"))


def read(text: str | None) -> AdmissionNote | None:
    """Inverse of `write`; None for anything else."""
    # A pod's owner may write anything here, so it is measured before it is parsed.
    if text is None or len(text) > LONGEST:
        return None
    try:
        body = json.loads(text)
        offer, before = body["offer"], body["before"]
        if not isinstance(offer, str) or not 0 < len(offer) <= _LONGEST_OFFER or len(before) > bounds.MOST_CONTAINERS:
            return None
        return AdmissionNote(
            offer,
            tuple(AmountsBefore(name, _amounts(kinds["requests"]), _amounts(kinds["limits"])) for name, kinds in before.items()),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _spelled(amounts: Amounts) -> dict[str, str]:
    spelled = {}
    if amounts.cpu is not None:
        spelled["cpu"] = exact_quantity.of_nano(round(amounts.cpu * _NANO)).text
    if amounts.memory is not None:
        spelled["memory"] = exact_quantity.of_whole(amounts.memory).text
    return spelled


def _amounts(quantities: Mapping[str, str]) -> Amounts:
    """Raises ValueError for an amount that no container can have."""
    nano = {name: exact_quantity.parse(text).nano for name, text in quantities.items() if name in ("cpu", "memory")}
    amounts = Amounts(
        cpu=Cores(nano["cpu"] / _NANO) if "cpu" in nano else None,
        # A part of a byte counts as one, as Kubernetes rounds up.
        memory=Bytes(math.ceil(nano["memory"] / _NANO)) if "memory" in nano else None,
    )
    if (fault := next(bounds.amounts("before", amounts), None)) is not None:
        raise ValueError(fault)
    return amounts
