"""Which admission gave a pod its requests.

A pod that a ReplicaSet makes has no name yet when the webhook is asked, only a beginning. The API server adds five characters of
an alphabet of its own. So an outcome of admission names the beginning and `%`, and of several the one nearest to the creation of
the pod is its own.
"""

import re
from collections.abc import Iterable
from datetime import datetime

from schemas.outcomes import Action, ActionFinished

_ADDED = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What the API server adds to the beginning of a name (apimachinery's rand.String)."""
_KEPT = 58
"""Characters of a beginning that the API server keeps, so that a name has 63 at most."""


def beginning(asked: str) -> str:
    """What the outcome of the admission of this pod (`namespace/name`, name or uid) holds as it is."""
    name = asked.rpartition("/")[2]
    return name[:-5] if _ADDED.fullmatch(name[-5:]) else name


def is_admission_of(outcome: ActionFinished, asked: str) -> bool:
    """Whether an outcome is of the admission of this pod, or of one whose name began alike."""
    pod = outcome.subject
    if outcome.action is not Action.PATCH:
        return False
    if asked in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}"):
        return True
    namespace, _, name = asked.rpartition("/")
    start = pod.name[:-1][:_KEPT]
    begun = pod.name.endswith("%") and name.startswith(start) and _ADDED.fullmatch(name[len(start) :])
    return bool(begun) and namespace in ("", pod.namespace)


def nearest(admissions: Iterable[ActionFinished], created: datetime | None) -> ActionFinished | None:
    """The admission nearest to the pod's creation; the newest one where that is not known."""
    if created is None:
        return max(admissions, key=lambda each: each.at, default=None)
    return min(admissions, key=lambda each: abs(each.at - created), default=None)
