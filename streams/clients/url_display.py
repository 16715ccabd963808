"""URLs as people may see them: without the password that one may carry."""

import re

_USER = re.compile(r"(?<=://)[^/?#\s]*@")


def without_password(text: str) -> str:
    """The text with users and passwords taken out of the URLs in it."""
    return _USER.sub("", text)
