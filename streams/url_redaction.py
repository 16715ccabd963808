"""URLs as people may see them: without the users, passwords and tokens that they may carry.

It errs on the side of hiding.
"""

import re
from urllib.parse import unquote_plus

_HIDDEN = "(hidden)"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
_IS_URL = re.compile(rf"\s*{_SCHEME}")
_NEXT = rf"(?![\s,;'\"(\[<]\s*{_SCHEME})"
# To the last @: a password may hold characters that end the address in a valid URL, and clients quote a URL as it was given.
_USER = re.compile(rf"(?<=://)(?:{_NEXT}[^\n])*@")
_QUOTED_USER = re.compile(rf"(?<=://)(?:{_NEXT}[^\n'\"<>])*@")
_WITHOUT_SCHEME = re.compile(r"^(\s*(?:[\w.]+=)?)\S*:\S*@(?!sha256:)")
_PARAMETER = re.compile(r"([?&;#])([^=?&;#\s'\"<>]{1,200})=([^&#\s'\"<>]*)")
_SECRET = re.compile(r"token|passw|passphrase|pwd|secret|key|sig|credential|auth|session|jwt", re.IGNORECASE)


def without_password(text: str) -> str:
    """The text without everything before the last @ of each URL in it, and without secrets in its query.

    A text that is itself a URL is taken as that to its end; in a sentence quotes and line breaks end a URL. A single word with a
    user and a password counts as a URL without a scheme; an image's digest does not.
    """
    if "@" in text and "://" not in text and len(text.split()) == 1:
        text = _WITHOUT_SCHEME.sub(r"\1", text)
    user = _USER if _IS_URL.match(text) else _QUOTED_USER
    return _PARAMETER.sub(_shown, user.sub("", text)) if "://" in text or "=" in text else text


def _shown(match: re.Match[str]) -> str:
    before, name, _ = match.groups()
    return f"{before}{name}={_HIDDEN}" if _SECRET.search(unquote_plus(name)) else match[0]
