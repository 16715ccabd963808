"""Which admission gave a pod its requests.

A pod of a ReplicaSet has only a name prefix when the webhook sees it, so an offer of admission has the prefix and `%`. The
outcome that says that the pod was seen has its full name.
"""

import re
from collections.abc import Iterable
from datetime import datetime

from schemas.outcomes import Action, ActionFinished, Result

_ADDED = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What the API server adds to the beginning of a name (apimachinery's rand.String)."""
_KEPT = 58
"""Characters of a beginning that the API server keeps, so that a name has 63 at most."""


def beginning(pod_name: str) -> str:
    """The text that the admission outcome of this pod (`namespace/name`, name or uid) contains."""
    name = pod_name.rpartition("/")[2]
    return name[:-5] if _ADDED.fullmatch(name[-5:]) else name


def is_admission_of(outcome: ActionFinished, pod_name: str) -> bool:
    """Whether an outcome is of the admission of this pod, or of one with the same name prefix."""
    pod = outcome.subject
    if outcome.action is not Action.PATCH:
        return False
    if pod_name in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}"):
        return True
    namespace, _, name = pod_name.rpartition("/")
    # The API server cuts a prefix and then adds five characters of an alphabet of its own.
    start = pod.name[:-1][:_KEPT]
    begun = pod.name.endswith("%") and name.startswith(start) and _ADDED.fullmatch(name[len(start) :])
    return bool(begun) and namespace in ("", pod.namespace)


def nearest(admissions: Iterable[ActionFinished], created: datetime | None) -> ActionFinished | None:
    """What was seen of the pod itself; else the offer nearest to its creation, or the newest one if that is unknown."""
    admissions = list(admissions)
    # An offer has only the prefix that all pods of an owner share; what was seen has the pod's own name.
    admissions = [
        admission for admission in admissions if admission.result is Result.DONE and not admission.subject.name.endswith("%")
    ] or admissions
    if created is None:
        return max(admissions, key=lambda admission: admission.at, default=None)
    return min(admissions, key=lambda admission: abs(admission.at - created), default=None)
