"""Judges outcomes by the API server's own audit log: what is said to be done was asked for by us, and accepted.

An outcome "already done" needs a request of anybody, because its consumer only found the world so. Of an admission the log says
that our webhook changed a pod which was then created; that the pod has the amounts is for who has listed the pods to say.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result

_REQUESTS = {
    Action.RESIZE: {("patch", "pods/resize")},
    Action.EVICT: {("create", "pods/eviction")},
    Action.SCALE: {("patch", "scale"), ("update", "scale")},
}
_ELSEWHERE = {Action.EVICT: {("delete", "pods")}}
"""What else leads to the same, where others did it."""
_MUTATED = "mutation.webhook.admission.k8s.io/"


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A request that the API server accepted: what it did to which object, and whose it was."""

    what: tuple[str, str]
    name: str
    user: str
    mutated_by: frozenset[str]


def faults(log: Path, namespace: str, outcomes: Sequence[ActionFinished], ours: Collection[str]) -> list[str]:
    """Each "done" in a namespace that the audit log does not bear out; `ours` are the users that our processes are.

    A request is written down a moment after its answer, so who has just acted uses `wait_for`.
    """
    accepted = list(_read(log, namespace))
    made = sum(each.what == ("create", "pods") and "ullage-webhook" in each.mutated_by for each in accepted)
    ended = {outcome.id: outcome for outcome in outcomes}.values()
    done = [each for each in ended if each.result is Result.DONE and each.subject.namespace == namespace]
    admitted = [outcome for outcome in done if outcome.action is Action.PATCH]
    found = [] if len(admitted) <= made else [f"{len(admitted)} admissions are done, and the webhook changed {made} pods"]
    requests = Counter((each.what, each.name, each.user in ours) for each in accepted)
    unasked = [each for each in done if each.action in _REQUESTS and not _borne_out(each, requests)]
    return [
        *found,
        *(f"{each.action.value} of '{each.subject.name}' is done, and nobody asked for it: {each.id}" for each in unasked),
    ]


def _borne_out(outcome: ActionFinished, requests: Counter[tuple[tuple[str, str], str, bool]]) -> bool:
    """Whether there was such a request; what a consumer asked for itself is counted off, so that one request bears out one."""
    whats, name = _REQUESTS[outcome.action], outcome.subject.name
    keys = [(what, name, True) for what in whats]
    if outcome.detail is OutcomeDetail.ALREADY_DONE:
        keys += [(what, name, False) for what in whats | _ELSEWHERE.get(outcome.action, set())]
    for key in keys:
        if requests[key] > 0:
            requests[key] -= key[2]
            return True
    return False


def _read(log: Path, namespace: str) -> Iterator[_Accepted]:
    for line in log.read_text(encoding="utf-8").rpartition("\n")[0].splitlines():
        event: dict[str, Any] = json.loads(line)
        where = event.get("objectRef", {})
        if where.get("namespace") != namespace or event.get("responseStatus", {}).get("code", 0) >= 300:
            continue
        below = where.get("subresource")
        resource = "scale" if below == "scale" else "/".join(filter(None, (where.get("resource"), below)))
        notes = [json.loads(text) for key, text in event.get("annotations", {}).items() if key.startswith(_MUTATED)]
        by = frozenset(note["configuration"] for note in notes if note.get("mutated"))
        yield _Accepted((event["verb"], resource), where.get("name", ""), event["user"]["username"], by)
