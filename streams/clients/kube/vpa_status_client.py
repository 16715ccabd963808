"""The status of VerticalPodAutoscaler objects: list, read and write it.

Of the spec it only reads the recommenders, to know who serves the object.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from schemas.units import Seconds
from streams.clients.bounded_answers import PageTokens
from streams.clients.kube import api_paths, quantities
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, ResponseTooLarge, accepted_body, decode_body
from streams.clients.kube.pod_objects import Time
from streams.errors import TryAgain

ResourceTexts = Mapping[str, str | int]
"""Quantities as text, by resource."""

PAGE = 500
"""Objects in one page of a list."""
_GROUP, _PLURAL = "/apis/autoscaling.k8s.io/v1", "verticalpodautoscalers"


class Conflict(TryAgain):
    """Somebody changed the object after it was read, so read it again."""


class VpaCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of the conditions in a VPA's status."""

    type: str
    status: str
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None


class RecommendedContainerResources(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The recommendation for one container. The API requires a target."""

    target: ResourceTexts
    container_name: str = ""
    lower_bound: ResourceTexts | None = None
    upper_bound: ResourceTexts | None = None
    uncapped_target: ResourceTexts | None = None


class RecommendedPodResources(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The recommendation for the containers of a pod."""

    container_recommendations: tuple[RecommendedContainerResources, ...] = ()


class VpaStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A VPA's whole status."""

    conditions: tuple[VpaCondition, ...] = ()
    recommendation: RecommendedPodResources | None = None
    observed_generation: int | None = None


class _RecommenderEntry(msgspec.Struct, frozen=True):
    """An entry of `spec.recommenders`."""

    name: str


class ServedBySpec(msgspec.Struct, frozen=True):
    """The part of the spec that names the object's recommenders."""

    recommenders: tuple[_RecommenderEntry, ...] = ()


class VpaStatusMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Which object this is, in which version."""

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class VpaStatusObject(msgspec.Struct, frozen=True):
    """A VPA object as far as its status is concerned: without most of its spec."""

    metadata: VpaStatusMeta
    spec: ServedBySpec = ServedBySpec()
    status: VpaStatus = VpaStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class _Continue(msgspec.Struct, frozen=True):
    token: str = msgspec.field(default="", name="continue")


class _VpaList(msgspec.Struct, frozen=True):
    items: list[VpaStatusObject]
    metadata: _Continue = _Continue()


class VpaStatusClient:
    """The VPA objects of one API server. Every call raises Unreachable, TryAgain and GiveUp. Threads may share it.

    With `namespaces`, `all` lists only these.
    """

    def __init__(self, api: Api, namespaces: Sequence[str] = ()) -> None:
        self._api, self._scopes = api, [api_paths.scoped(_GROUP, name, _PLURAL) for name in namespaces] or [f"{_GROUP}/{_PLURAL}"]

    def all(self) -> Iterator[VpaStatusObject]:
        """Every object, page by page."""
        for scope in self._scopes:
            yield from self._pages(scope)

    def read(self, namespace: str, name: str) -> VpaStatusObject | None:
        """The object; None when there is none."""
        return self._api.find(ApiRequest(_path(namespace, name), "reading VPA", f"{namespace}/{name}"), VpaStatusObject)

    def write(self, read: VpaStatusObject, status: VpaStatus) -> VpaStatusObject | None:
        """Write a status to the object that was read. Returns the object as it is then, None when it is gone. Raises Conflict."""
        about = read.metadata
        request = ApiRequest(
            f"{_path(about.namespace, about.name)}/status",
            "writing the status of VPA",
            read.name,
            method="PATCH",
            body=_patch(about, status),
            content_type=MERGE_PATCH,
        )
        response = self._api.send(request)
        if response.code == HTTPStatus.NOT_FOUND:
            return None
        if response.code == HTTPStatus.CONFLICT:
            text = response.body[:200].decode(errors="replace")
            raise Conflict(doing=request.doing, to=request.to, answer=f"409 {text}", after=Seconds(1.0))
        return decode_body(accepted_body(response, request), VpaStatusObject, request)

    def _pages(self, scope: str) -> Iterator[VpaStatusObject]:
        token, size, pages = "", PAGE, PageTokens("listing", _PLURAL)
        while True:
            path = f"{scope}?limit={size}" + (f"&continue={quote(token, safe='')}" if token else "")
            try:
                page = self._api.read(ApiRequest(path, "listing", _PLURAL), _VpaList)
            except ResponseTooLarge as error:
                size = error.smaller_page(size)
                continue
            yield from page.items
            token = pages.following(page.metadata.token)
            if not token:
                return


def _path(namespace: str, name: str) -> str:
    return api_paths.scoped(_GROUP, namespace, _PLURAL, name)


def _patch(about: VpaStatusMeta, status: VpaStatus) -> Mapping[str, object]:
    # A merge patch keeps what it does not name, so null stands for what has to go; lists are replaced as a whole.
    body: dict[str, object] = {"conditions": [], "recommendation": None, "observedGeneration": None}
    body.update(msgspec.to_builtins(status))
    # With the version that the status is based on, so that another writer's change is never silently overwritten.
    return {"metadata": {"uid": about.uid, "resourceVersion": about.resource_version}, "status": body}


def same(left: VpaStatus, right: VpaStatus) -> bool:
    """Whether two statuses mean the same: quantities compare by value, conditions in any order."""
    return _meaning(left) == _meaning(right)


def _meaning(status: VpaStatus) -> tuple[object, ...]:
    containers = status.recommendation.container_recommendations if status.recommendation else None
    # The server gives text back as it was written, and two recommenders may spell one amount in two ways.
    texts = None if containers is None else [(c.container_name, *map(_amounts, _bounds(c))) for c in containers]
    return sorted(status.conditions, key=lambda c: c.type), texts, status.observed_generation


def _bounds(text: RecommendedContainerResources) -> tuple[ResourceTexts | None, ...]:
    return text.target, text.lower_bound, text.upper_bound, text.uncapped_target


def _amounts(texts: ResourceTexts | None) -> dict[str, Fraction | str]:
    return {resource: _value(str(text)) for resource, text in (texts or {}).items()}


def _value(text: str) -> Fraction | str:
    try:
        return quantities.exact(text)
    except ValueError:  # text that is no quantity stands for itself
        return text
