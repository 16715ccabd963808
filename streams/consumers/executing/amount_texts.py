"""Amounts in the sentences of outcomes."""

from collections.abc import Mapping

from schemas.names import Amounts
from streams.clients.kube.quantities import spell_amounts


def spelled(requests: Mapping[str, Amounts]) -> str:
    """`web 250m 1048576, proxy nothing`: CPU in millicores, memory in bytes."""
    return ", ".join(f"{name} {' '.join(spell_amounts(requests[name]).values()) or 'nothing'}" for name in sorted(requests))
