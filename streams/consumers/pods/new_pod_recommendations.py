"""Answers which recommendation a pod that is about to be created may be given.

It reads the newest recommendation of each workload and the policies, and answers from memory, so that the patcher never waits for
the log. Without a policy that applies recommendations to new pods the answer is none. Which policy governs a workload is
judgement, so the index of policies is handed in.
"""

import threading
from typing import Protocol

from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.names import Place, Workload
from schemas.policies.vertical import UpdateMode
from streams.codec.event_codec import Codec
from streams.decision_view import DecisionView
from streams.errors import LogUnavailable
from streams.log.port import Log
from streams.topics import Topics


class UpdateModes(Protocol):
    """The policies, as far as new pods need them."""

    def apply(self, event: Event, place: Place) -> object:
        """Take in one event of `policies`."""

    def mode(self, workload: str) -> UpdateMode | None:
        """The mode of the policy that governs a workload key; None when none does."""


class NewPodRecommendations:
    """Reads `recommendations` and the first copy of `policies`. One thread catches up; others may ask."""

    def __init__(self, log: Log, topics: Topics, codec: Codec, *, modes: UpdateModes) -> None:
        """Raises BadInput when one of the topics is missing."""
        self._log, self._codec, self._modes = log, codec, modes
        recommendations, self._policies = topics.wire("recommendations"), topics.wire("policies")
        self._view = DecisionView(log, codec, recommendations)
        places = [(self._policies, 0), *((recommendations, p) for p in range(topics.partitions))]
        self._next = {place: log.begin(*place) for place in places}

    def catch_up(self, *, wait: float = 0.0) -> None:
        """Read to the end of both topics; waits up to `wait` seconds for the first record.

        While the log is away, the answers rest on what was read before.
        """
        try:
            while records := self._log.poll(self._next, wait=wait):
                for record in records:
                    self._next[record.topic, record.partition] = record.offset + 1
                    if record.topic != self._policies:
                        self._view.apply(record)
                    elif (event := self._codec.decode_or_none(record)) is not None:
                        self._modes.apply(event, record.place)
                wait = 0.0
        except LogUnavailable:
            return

    def follow(self) -> threading.Thread:
        """Keep catching up in a thread of its own, for a log whose answers take time."""
        thread = threading.Thread(target=self._follow, name="new-pod-recommendations", daemon=True)
        thread.start()
        return thread

    def _follow(self) -> None:
        while True:
            self.catch_up(wait=1.0)

    def of(self, workload: Workload) -> RequestsRecommended | None:
        """The recommendation for a new pod of this workload; None when there is none, or its policy leaves new pods alone."""
        if self._modes.mode(workload.key) in (None, UpdateMode.OFF):
            return None
        latest = self._view.get(workload.key)
        return latest.decision if latest is not None and isinstance(latest.decision, RequestsRecommended) else None
