"""Who changed an object of the cluster by which somebody commands: the field manager that changed its spec last, and when.

The name is what the client says of itself (`kubectl-edit`, `argocd-controller`).
"""

from datetime import UTC, datetime

from schemas.policies.control import Author, KnownBy
from streams.clients.kube.pod_objects import AuthoredMeta

_LONGEST = 200
_NEVER = datetime.min.replace(tzinfo=UTC)


def author(meta: AuthoredMeta) -> Author | None:
    """The author of a spec; None where the object does not say."""
    # The API server keeps no user in an object; its audit log has the user of that moment.
    changes = [field for field in meta.managed_fields or () if not field.subresource and "f:spec" in (field.fields or {})]
    if not changes:
        return None
    last = max(changes, key=lambda change: change.time or _NEVER)
    when = "" if last.time is None else f" at {last.time.isoformat()}"
    return Author(f"{last.manager[:_LONGEST]}{when}", KnownBy.CLUSTER)
