"""Label selectors as requirements, from both forms that Kubernetes has: objects (`matchLabels`, ...) and text (`a=b,c in (d)`).

A selector that is present and empty matches every pod. It refuses what Kubernetes would refuse, and quotes it.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from schemas.policies.vpa import Operator, Requirement
from streams.clients.bounded_answers import PageTokens
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest, ResponseTooLarge, accepted_body, decode_body
from streams.clients.kube.json_objects import Json, ObjectOutline
from streams.clients.kube.watched_objects import LabelExpression, LabelSelector

_KEY = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([A-Za-z0-9._-]*)")
_HAS = re.compile(rf"(!?)\s*({_KEY})")
_PARTS = re.compile(r",(?![^()]*\))")


def of_labels(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Each label must have exactly this value."""
    return tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(labels.items()))


def of_object(selector: LabelSelector) -> tuple[Requirement, ...]:
    """From the object form. Raises ValueError for an unknown operator."""
    # In one order, so that the same selector, written in another one, is no change.
    expressions = sorted(selector.match_expressions or (), key=lambda expression: (expression.key, expression.operator))
    return of_labels(selector.match_labels or {}) + tuple(map(_expression, expressions))


def of_text(text: str) -> tuple[Requirement, ...]:
    """From the text form, which scales use. Raises ValueError that quotes the invalid part."""
    parts = [part.strip() for part in _PARTS.split(text)]
    return tuple(sorted((_part(part) for part in parts if part), key=_order))


def _order(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator, requirement.values


def _expression(given: LabelExpression) -> Requirement:
    try:
        return Requirement(given.key, Operator(given.operator), tuple(sorted(given.values or ())))
    except ValueError:
        raise ValueError(f"the selector's operator '{given.operator}' for '{given.key}' is none") from None


def _part(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        operator = Operator.IN if match[2] == "in" else Operator.NOT_IN
        return Requirement(match[1], operator, tuple(sorted(value.strip() for value in match[3].split(","))))
    if match := _EQUAL.fullmatch(part):
        return Requirement(match[1], Operator.NOT_IN if match[2] == "!=" else Operator.IN, (match[3],))
    if match := _HAS.fullmatch(part):
        return Requirement(match[2], Operator.DOES_NOT_EXIST if match[1] else Operator.EXISTS)
    raise ValueError(f"'{part}' is no part of a label selector")


PAGE = 500
"""Pods in one page of a list."""


class _ListMetadata(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _PodList(msgspec.Struct, frozen=True):
    items: list[ObjectOutline] | None = None
    metadata: _ListMetadata = _ListMetadata()


class LabelSelectedPods:
    """The pods of one API server as plain JSON, for occasional looks at one workload's pods."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def selected(self, namespace: str, selector: str) -> list[Json]:
        """The pods, page by page; none for an empty selector. Raises Unreachable, TryAgain and GiveUp."""
        if not selector:  # to the API server it would mean every pod of the namespace
            return []
        pods: list[Json] = []
        token, size, pages = "", PAGE, PageTokens("listing pods of", namespace)
        start = f"{api_paths.scoped('/api/v1', namespace, 'pods')}?labelSelector={quote(selector, safe='')}"
        while True:
            path = f"{start}&limit={size}" + (f"&continue={quote(token, safe='')}" if token else "")
            try:
                request = ApiRequest(path, "listing pods of", f"{namespace} ({selector})")
                body = accepted_body(self._api.send(request), request)
            except ResponseTooLarge as error:  # large pods: the same page again, with fewer of them
                size = error.smaller_page(size)
                continue
            token = pages.following(decode_body(body, _PodList, request).metadata.continue_)
            pods += decode_body(body, Json, request).get("items") or ()
            if not token:
                return pods
