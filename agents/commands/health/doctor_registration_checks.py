"""The checks of `ullage doctor` on what was registered with the API server for the webhook and the metrics API.

They look at answers that were given, and ask nothing themselves.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from agents.commands.health.doctor_check import DoctorCheck
from streams.errors import BadInput
from streams.serving import certificates

_RESTART = "start `ullage consumer webhook`, which renews them"


def ended_authorities(configuration: Mapping[str, Any], now: datetime) -> DoctorCheck | None:
    """A warning if the API server trusts nobody any more by a MutatingWebhookConfiguration; None if it does."""
    for each in configuration.get("webhooks") or ():
        bundle = (each.get("clientConfig") or {}).get("caBundle")
        if not bundle:  # the API server trusts whom its own system trusts
            continue
        about = f"webhook '{each.get('name', '')}' of '{configuration['metadata']['name']}'"
        try:
            still_good = certificates.joined([base64.b64decode(bundle)], now)
        except (BadInput, binascii.Error):
            return DoctorCheck("fail", "webhook", f"the authorities of {about} cannot be read, so nobody is asked", _RESTART)
        if not still_good:
            return DoctorCheck("fail", "webhook", f"all authorities of {about} have expired, so nobody is asked", _RESTART)
    return None


def served_by(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The Services, by namespace and name, that a MutatingWebhookConfiguration leads to."""
    found = [(each.get("clientConfig") or {}).get("service") for each in configuration.get("webhooks") or ()]
    yield from sorted({(each.get("namespace", ""), each.get("name", "")) for each in found if each})


def api_service(found: Mapping[str, Any], ours: tuple[str, str], *, wanted: bool) -> DoctorCheck | None:
    """What is wrong with the APIService of external metrics; None where nothing is. `ours`: namespace and name of our Service."""
    name, spec = found["metadata"]["name"], found.get("spec") or {}
    service = spec.get("service") or {}
    where = service.get("namespace", ""), service.get("name", "")
    if where != ours:
        if not wanted:
            return None
        finding = f"'{name}' is served by Service '{'/'.join(where)}', so no HPA sees our forecasts; a group has one server"
        return DoctorCheck("warn", "apis", finding, "scale directly (docs/replicas.md), or take the other adapter away")
    bad = [each for each in (found.get("status") or {}).get("conditions") or () if each.get("type") == "Available"]
    if not bad or bad[0].get("status") == "True":
        return DoctorCheck("ok", "apis", f"'{name}' is served by us") if wanted else None
    why = f"{bad[0].get('reason', '')}: {bad[0].get('message', '')}"
    finding = f"nobody serves '{name}' ({why}); while that is so, no namespace of the cluster can be deleted"
    fix = "start `ullage consumer metrics-api`" if wanted else f"kubectl delete apiservice {name}"
    return DoctorCheck("fail", "apis", finding, f"{fix}; is its Service reached from the API server?" if wanted else fix)
