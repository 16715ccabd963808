"""Follows the pages of a list, which must end: an answer that names a next page for ever would keep us for ever."""

from schemas.outcomes import OutcomeDetail
from streams.answer_bounds import LONGEST_TOKEN, MOST_PAGES
from streams.errors import GiveUp


class PageTokens:
    """The pages of one list. `doing` and `to` go into the error."""

    def __init__(self, doing: str, to: str, most: int = MOST_PAGES) -> None:
        self._doing, self._to, self._most = doing, to, most
        self._pages, self._last = 0, ""

    def following(self, token: object) -> str:
        """The token of the next page, empty after the last one. Raises GiveUp where the list does not end."""
        self._pages += 1
        if not token:
            return ""
        if not isinstance(token, str) or len(token) > LONGEST_TOKEN:
            raise self._endless("the token of the next page is no text, or too long")
        if token == self._last:
            raise self._endless("the next page has the same token as this one")
        if self._pages >= self._most:
            raise self._endless(f"the answer has more than {self._most} pages")
        self._last = token
        return token

    def _endless(self, answer: str) -> GiveUp:
        return GiveUp(doing=self._doing, to=self._to, answer=answer, detail=OutcomeDetail.INVALID)
