"""The pods that a selector selects, as plain JSON, for occasional looks at one workload's pods."""

from urllib.parse import quote

import msgspec

from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest, ResponseTooLarge, accepted_body, decode_body
from streams.clients.kube.json_objects import Json, ObjectOutline
from streams.clients.page_tokens import PageTokens

PAGE = 500
"""Pods in one page of a list."""


class _ListMetadata(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _PodList(msgspec.Struct, frozen=True):
    items: list[ObjectOutline] | None = None
    metadata: _ListMetadata = _ListMetadata()


class LabelSelectedPods:
    """The pods of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def selected(self, namespace: str, selector: str) -> list[Json]:
        """The pods, page by page; none for an empty selector. Raises Unreachable, TryAgain and GiveUp."""
        if not selector:
            return []
        found: list[Json] = []
        token, size, pages = "", PAGE, PageTokens("listing pods of", namespace)
        start = f"{api_paths.scoped('/api/v1', namespace, 'pods')}?labelSelector={quote(selector, safe='')}"
        while True:
            path = f"{start}&limit={size}" + (f"&continue={quote(token, safe='')}" if token else "")
            try:
                request = ApiRequest(path, "listing pods of", f"{namespace} ({selector})")
                body = accepted_body(self._api.send(request), request)
            except ResponseTooLarge as error:
                size = error.smaller_page(size)
                continue
            token = pages.following(decode_body(body, _PodList, request).metadata.continue_)
            found += decode_body(body, Json, request).get("items") or ()
            if not token:
                return found
