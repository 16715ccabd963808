"""What the kube source asks of everything that publishes objects of some kinds; others are passed over."""

from datetime import datetime, timedelta
from typing import Protocol

from streams.clients.kube.watched_objects import KubeObject
from streams.publishing.published_state import PublishedState
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread


class SubjectPublisher(Protocol):
    """`controller` is an object's own kind, such as `ReplicaSet`, if it is a controller; empty for all others."""

    def restore(self, published: PublishedState, at: datetime) -> None:
        """Start from what the log has, and publish what differs. Raises LogUnavailable."""

    def seen(self, controller: str, item: KubeObject, at: datetime) -> None:
        """An object exists, new or changed. Raises ValueError for one that cannot be read; then `unread` follows.

        Raises NamesNothingError for one that is read and makes no fact.
        """

    def unread(self, unread: ObjectUnread, controller: str) -> None:
        """An object exists and cannot be read: what was published of it is kept."""

    def gone(self, gone: ObjectGone, controller: str, at: datetime) -> None:
        """An object no longer exists."""

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:
        """All of a watched kind were seen: what was published and was not seen is gone. `controllers`: all of those were, too."""

    def publish_due(self, at: datetime) -> None:
        """Publish what is due by time alone, or waited for the rest of a burst."""

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago, so that a start finds it near the end of the log."""
