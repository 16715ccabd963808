"""The rights that each component needs in a cluster. A test compares it with the chart's rbac, which grants exactly these."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from streams.clients.kube.api import Api, ApiRequest
from streams.sources.kube import watch_threads
from streams.sources.kube.watch.watched_resources import BUFFERS, WebhookLease

_VPA, _EHPA = "autoscaling.k8s.io", "autoscaling.crane.io"
_LEASES, _WEBHOOKS = "coordination.k8s.io", "admissionregistration.k8s.io"
_LISTED = 4
"""Rights that are named: enough to see what is meant."""


@dataclass(frozen=True, slots=True)
class AccessRight:
    """One verb on one resource (`pods/eviction` names a subresource); `own`: in the component's namespace, else in all."""

    verb: str
    group: str
    resource: str
    name: str = ""
    own: bool = False

    def __str__(self) -> str:
        """`create pods/eviction`."""
        of = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{of}" + (f" '{self.name}'" if self.name else "")

    def review(self, namespace: str) -> dict[str, object]:
        """The SelfSubjectAccessReview that asks for it. `namespace` is the components' own."""
        resource, _, sub = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": sub, "name": self.name}
        # without a namespace the review asks about all of them
        if self.own:
            attributes["namespace"] = namespace
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
        }


def _each(verbs: str, group: str, resources: str) -> tuple[AccessRight, ...]:
    return tuple(AccessRight(verb, group, resource) for resource in resources.split() for verb in verbs.split())


def _named(verbs: str, group: str, resource: str, name: str, *, own: bool = False) -> tuple[AccessRight, ...]:
    """For one object, or with an empty name for all."""
    return tuple(AccessRight(verb, group, resource, name, own=own) for verb in verbs.split())


def _lease(name: str) -> tuple[AccessRight, ...]:
    """What it takes to keep a Lease of this name, without which a component in a pod does nothing."""
    return AccessRight("create", _LEASES, "leases", own=True), *_named("get update", _LEASES, "leases", name, own=True)


_ANY_LEASE = WebhookLease("any", "any")
"""With a webhook the updater's constraints are watched; the right to its own Lease is one in one namespace, and stands below."""


def _watched() -> Iterator[AccessRight]:
    """To list and watch all that the kube source does."""
    resources = {
        watch.resource.plural: watch.resource for watch in watch_threads.watches(nodes=True, replicas=True, webhook=_ANY_LEASE)
    }
    # without capacity buffers nodes are scaled, too, and their CRD is rarely installed
    optional = {"leases", *(resource.plural for resource in BUFFERS)}
    for plural in sorted(resources.keys() - optional):
        yield from _each("list watch", resources[plural].group, plural)


RIGHTS: Mapping[str, tuple[AccessRight, ...]] = {
    "source kube": (*_watched(), *_each("list", _VPA, "verticalpodautoscalercheckpoints")),
    "source usage": _each("list", "metrics.k8s.io", "pods"),
    "consumer status": (
        *_each("get list", _VPA, "verticalpodautoscalers"),
        *_each("patch", _VPA, "verticalpodautoscalers/status"),
    ),
    "consumer resizer": (
        *_each("get", "", "pods"),
        *_each("patch", "", "pods/resize"),
        *_each("create", "", "events"),
        *_each("get", "metrics.k8s.io", "pods"),
    ),
    "consumer evictor": (*_each("get", "", "pods"), *_each("create", "", "pods/eviction events")),
    "consumer webhook": (
        *_each("get", "apps", "daemonsets deployments replicasets statefulsets"),
        *_each("get", "batch", "cronjobs jobs"),
        *_each("get", "", "replicationcontrollers"),
        *_each("create", _WEBHOOKS, "mutatingwebhookconfigurations"),
        AccessRight("create", _LEASES, "leases", own=True),
    ),
    "consumer asg": (
        *_each("get list patch", "", "nodes"),
        *_each("get list", "", "pods"),
        *_each("create", "", "pods/eviction events"),
        AccessRight("create", _LEASES, "leases", own=True),
    ),
    "consumer autoscalers": (
        *_each("get patch", _EHPA, "effectivehorizontalpodautoscalers"),
        *_each("patch", _EHPA, "effectivehorizontalpodautoscalers/status substitutes/status"),
        *_each("get create patch delete", _EHPA, "substitutes"),
        *_each("get create patch delete", "prediction.crane.io", "timeseriespredictions"),
        *_each("patch", "prediction.crane.io", "timeseriespredictions/status"),
        *_each("get create patch delete", "autoscaling", "horizontalpodautoscalers"),
        *_each("create", "", "events"),
        *_each("list", "", "pods"),
        *_each("get patch", "*", "*/scale"),
    ),
    "consumer metrics-api": (
        *_each("create", "apiregistration.k8s.io", "apiservices"),
        AccessRight("create", "", "secrets", own=True),
    ),
}
"""By component, as its command is called. Rights on single named objects are left out where a broader one is asked for."""
KEPT: Mapping[str, tuple[AccessRight, ...]] = {
    "source kube": (
        *_named("list watch", _LEASES, "leases", "", own=True),
        *_lease("ullage-source-kube"),
        *_each("list watch", "ullage.internal", "clustercontrols verticalpolicies"),
        *_each("patch", "ullage.internal", "clustercontrols/status verticalpolicies/status"),
    ),
    "source usage": _lease("ullage-source-usage"),
    "source asg": _lease("ullage-source-asg"),
    "consumer status": _lease("ullage-status"),
    "consumer resizer": _lease("ullage-resizer"),
    "consumer evictor": (*_named("get", _LEASES, "leases", "ullage-webhook", own=True), *_lease("ullage-evictor")),
    "consumer webhook": (
        *_named("get update delete", _WEBHOOKS, "mutatingwebhookconfigurations", "ullage-webhook"),
        *_named("create", "", "secrets", "", own=True),
        *_named("get update", "", "secrets", "ullage-webhook-certificate", own=True),
        *_lease("ullage-webhook"),
        *_named("delete", _LEASES, "leases", "ullage-webhook", own=True),
    ),
    "consumer asg": _lease("ullage-asg"),
    "consumer autoscalers": _lease("ullage-autoscalers"),
    "consumer metrics-api": (
        *_named("get update", "apiregistration.k8s.io", "apiservices", "v1beta1.external.metrics.k8s.io"),
        *_named("get", "", "configmaps", "extension-apiserver-authentication"),
        *_named("get update", "", "secrets", "ullage-metrics-api-certificate", own=True),
    ),
}
"""What it takes in a pod to keep objects of its own, by the names of deploy/helm/ullage/rbac; some settings need less."""

NODES = ("consumer asg",)
"""Components that are there where nodes are ours."""
REPLICAS = ("consumer autoscalers", "consumer metrics-api")
"""Components that are there where replicas are ours."""
WATCHING = ("source kube", "source usage")
"""Components without which nothing is seen."""


def missing(api: Api, rights: Iterable[AccessRight], *, namespace: str) -> list[AccessRight]:
    """The rights that the cluster does not grant to our account. `namespace`: the components' own.

    Raises TryAgain and GiveUp where the cluster does not say.
    """
    return [right for right in rights if not _granted(api, right, namespace)]


def listed(rights: Sequence[AccessRight]) -> str:
    """The first of these rights in words, and the number of others."""
    more = len(rights) - _LISTED
    return ", ".join(map(str, rights[:_LISTED])) + (f" and {more} more" if more > 0 else "")


def _granted(api: Api, right: AccessRight, namespace: str) -> bool:
    path, doing = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", f"asking whether we may {right}"
    answer = api.read(ApiRequest(path, doing, "the API server", "POST", right.review(namespace)), dict)
    return (answer.get("status") or {}).get("allowed") is True
