"""The status half of VerticalPodAutoscaler objects: read, list and write it, in the API's own words.

A write names the version of the object that it rests on, so that a second writer is noticed and never overwritten unseen: that is
`Conflict`. What the specs say is a source's business; here only who is to serve an object counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import quote

import msgspec
from kubernetes.utils.quantity import parse_quantity

from schemas.units import Seconds
from streams.clients.kube.api import MERGE, Api, Question, accepted, decoded
from streams.clients.kube.pod_objects import Time
from streams.errors import TryAgain

Texts = Mapping[str, str | int]
"""Quantities by resource."""

PAGE = 500
"""Objects listed with one question."""
_GROUP = "/apis/autoscaling.k8s.io/v1"


class Conflict(TryAgain):
    """Somebody changed the object since it was read: read it again."""


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One condition of an object."""

    type: str
    status: str
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None


class ContainerText(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The recommendation for one container; the API insists on a target."""

    target: Texts
    container_name: str = ""
    lower_bound: Texts | None = None
    upper_bound: Texts | None = None
    uncapped_target: Texts | None = None


class Recommendation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The recommendation for a pod."""

    container_recommendations: tuple[ContainerText, ...] = ()


class VpaStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a VPA object."""

    conditions: tuple[Condition, ...] = ()
    recommendation: Recommendation | None = None
    observed_generation: int | None = None


class Named(msgspec.Struct, frozen=True):
    """An entry of `spec.recommenders`."""

    name: str


class VpaSpec(msgspec.Struct, frozen=True):
    """Who is to serve the object."""

    recommenders: tuple[Named, ...] = ()


class VpaMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Which object, in which version."""

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class VpaObject(msgspec.Struct, frozen=True):
    """A VPA object as far as its status is concerned."""

    metadata: VpaMetadata
    spec: VpaSpec = VpaSpec()
    status: VpaStatus = VpaStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class _Continue(msgspec.Struct, frozen=True):
    token: str = msgspec.field(default="", name="continue")


class _VpaList(msgspec.Struct, frozen=True):
    items: list[VpaObject]
    metadata: _Continue = _Continue()


class Vpas:
    """The VPA objects of one API server. All calls raise Unreachable, TryAgain and GiveUp. Threads may share it.

    `namespaces`: the only ones that are listed; none means all of them.
    """

    def __init__(self, api: Api, namespaces: Sequence[str] = ()) -> None:
        self._api, self._folders = api, [f"/namespaces/{quote(name)}" for name in namespaces] or [""]

    def all(self) -> Iterator[VpaObject]:
        """Every object."""
        for folder in self._folders:
            yield from self._pages(f"{_GROUP}{folder}/verticalpodautoscalers?limit={PAGE}")

    def read(self, namespace: str, name: str) -> VpaObject | None:
        """The object; None when there is none."""
        return self._api.find(Question(_path(namespace, name), "reading VPA", f"{namespace}/{name}"), VpaObject)

    def write(self, read: VpaObject, status: VpaStatus) -> VpaObject | None:
        """Give the object that was read this status; the object as it is then, None when it is gone. Raises Conflict."""
        about = read.metadata
        question = Question(
            f"{_path(about.namespace, about.name)}/status",
            "writing the status of VPA",
            read.name,
            method="PATCH",
            body=_patch(about, status),
            content=MERGE,
        )
        answer = self._api.ask(question)
        if answer.code == HTTPStatus.NOT_FOUND:
            return None
        if answer.code == HTTPStatus.CONFLICT:
            said = answer.body[:200].decode(errors="replace")
            raise Conflict(doing=question.doing, to=question.to, answer=f"409 {said}", after=Seconds(1.0))
        return decoded(accepted(answer, question), VpaObject, question)

    def _pages(self, first: str) -> Iterator[VpaObject]:
        token = ""
        while True:
            path = first + (f"&continue={quote(token)}" if token else "")
            page = self._api.read(Question(path, "listing", "verticalpodautoscalers"), _VpaList)
            yield from page.items
            token = page.metadata.token
            if not token:
                return


def _path(namespace: str, name: str) -> str:
    return f"{_GROUP}/namespaces/{quote(namespace)}/verticalpodautoscalers/{quote(name)}"


def _patch(about: VpaMetadata, status: VpaStatus) -> Mapping[str, object]:
    """What is not in a merge patch stays, so what is to go is named as null; lists are replaced whole."""
    body: dict[str, object] = {"conditions": [], "recommendation": None, "observedGeneration": None}
    body.update(msgspec.to_builtins(status))
    return {"metadata": {"uid": about.uid, "resourceVersion": about.resource_version}, "status": body}


def same(one: VpaStatus, other: VpaStatus) -> bool:
    """Whether two statuses say the same: quantities by value, conditions in any order."""
    return _meaning(one) == _meaning(other)


def _meaning(status: VpaStatus) -> tuple[object, ...]:
    said = status.recommendation.container_recommendations if status.recommendation else None
    texts = None if said is None else [(c.container_name, *map(_amounts, _four(c))) for c in said]
    return sorted(status.conditions, key=lambda c: c.type), texts, status.observed_generation


def _four(text: ContainerText) -> tuple[Texts | None, ...]:
    return text.target, text.lower_bound, text.upper_bound, text.uncapped_target


def _amounts(texts: Texts | None) -> dict[str, Fraction | str]:
    return {resource: _value(str(text)) for resource, text in (texts or {}).items()}


@lru_cache(maxsize=1 << 14)
def _value(text: str) -> Fraction | str:
    """The amount; what is none stands for itself."""
    try:
        return Fraction(parse_quantity(text))  # type: ignore[no-untyped-call]  # the official client types no function of its utils
    except (ValueError, ArithmeticError):
        return text
