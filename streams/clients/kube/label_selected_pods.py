"""The pods that a selector selects, as plain JSON, for occasional looks at one workload's pods."""

from typing import Any
from urllib.parse import quote

from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest, ResponseTooLarge
from streams.clients.page_tokens import PageTokens

PAGE = 500
"""Pods in one page of a list."""
Json = dict[str, Any]


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
                page = self._api.read(ApiRequest(path, "listing pods of", f"{namespace} ({selector})"), Json)
            except ResponseTooLarge as error:
                size = error.smaller_page(size)
                continue
            found += page.get("items") or ()
            token = pages.following((page.get("metadata") or {}).get("continue"))
            if not token:
                return found
