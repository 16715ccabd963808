"""Caches answers to reviews, because the pods of a rollout are alike: they get the same answer except for the review's uid.

An answer is a pure function of the review and of look-ups in the cluster. So it is valid again if the parts of the review that
admission examines are the same bytes, and all the look-ups have the same results now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agents.logic.admission.admission_review import Lookup, Reply
from agents.logic.admission.pod_spec import PodOwnerReference
from schemas.outcomes import AdmittedAmounts

_MOST = 2_000
"""Answers that are kept; then all are forgotten."""
_LONGEST = 16 * 1024
"""Bytes of a pod's parts that are remembered."""
_UNREAD = frozenset({"uid", "object", "oldObject", "options", "userInfo"})
"""Parts of a request that no answer to a new pod depends on, or that are looked at one by one."""

_OF_PODS = ("resources", "overhead", "priorityClassName", "activeDeadlineSeconds", "affinity")
"""Parts of a pod's spec, besides its containers, by which it is judged."""


@dataclass(frozen=True, slots=True)
class Question:
    """A look-up for a review, and its result."""

    method: str
    arguments: tuple[str | PodOwnerReference, ...]
    answer: object


@dataclass(frozen=True, slots=True)
class RememberedReply:
    """A reply, what it rests on, and what it sets, in words and in amounts."""

    questions: tuple[Question, ...]
    reply: Reply
    changes: str
    admitted: AdmittedAmounts | None = None

    def holds(self, lookup: Lookup) -> bool:
        """Whether all look-ups have the same results as then."""
        return all(getattr(lookup, question.method)(*question.arguments) == question.answer for question in self.questions)


class ReviewMemo:
    """Replies by what they were given to. Several threads may use it."""

    def __init__(self) -> None:
        self._kept: dict[bytes, RememberedReply] = {}

    def get(self, key: bytes | None, lookup: Lookup) -> RememberedReply | None:
        """The reply to a review of this key, if it holds still."""
        remembered = None if key is None else self._kept.get(key)
        return remembered if remembered is not None and remembered.holds(lookup) else None

    def put(self, key: bytes | None, remembered: RememberedReply) -> None:
        """Remember it; a review without a key is not remembered."""
        if key is None:
            return
        if len(self._kept) >= _MOST:
            # all at once: a rollout soon fills it again, and no order has to be kept
            self._kept.clear()
        self._kept[key] = remembered


def key_of(review: bytes | Mapping[str, Any]) -> bytes | None:
    """The parts that admission examines in the review of a pod, as bytes; None for any other or unusual review."""
    if isinstance(review, bytes):
        return None
    try:
        request = review["request"]
        pod = request["object"]
        if request["resource"]["resource"] != "pods" or not isinstance(request["uid"], str):
            return None
        spec = pod["spec"]
        containers = [(c.get("name"), c.get("resources")) for c in spec["containers"]]
        init = [(c.get("name"), c.get("resources"), c.get("restartPolicy")) for c in spec.get("initContainers") or ()]
        whole = [spec.get(name) for name in _OF_PODS]
        about = {name: part for name, part in request.items() if name not in _UNREAD}
        key = orjson.dumps((about, pod.get("metadata"), containers, init, whole, pod.get("status")))
    except (KeyError, TypeError, AttributeError):
        return None
    return key if len(key) <= _LONGEST else None
