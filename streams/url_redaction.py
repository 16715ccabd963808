"""URLs as people may see them: without the users, passwords and tokens that they may carry.

It rather hides too much: a password may hold what ends the address of a well-made URL, and clients quote a URL as it was given.
"""

import re
from urllib.parse import unquote_plus

_HIDDEN = "(hidden)"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
_IS_URL = re.compile(rf"\s*{_SCHEME}")
_NEXT = rf"(?![\s,;'\"(\[<]\s*{_SCHEME})"
_USER = re.compile(rf"(?<=://)(?:{_NEXT}[^\n])*@")
_QUOTED_USER = re.compile(rf"(?<=://)(?:{_NEXT}[^\n'\"<>])*@")
_WITHOUT_SCHEME = re.compile(r"^(\s*(?:[\w.]+=)?)\S*:\S*@(?!sha256:)")
_PARAMETER = re.compile(r"([?&;#])([^=?&;#\s'\"<>]{1,200})=([^&#\s'\"<>]*)")
_SECRET = re.compile(r"token|passw|passphrase|pwd|secret|key|sig|credential|auth|session|jwt", re.IGNORECASE)


def without_password(text: str) -> str:
    """The text without what stands before the last @ of each URL in it, and without secrets that a query names.

    A text that is itself a URL is taken as that to its end; in a sentence quotes and line breaks end a URL. A single word that
    names a user and a password is taken as a URL whose scheme was forgotten; the digest of an image is none.
    """
    if "@" in text and "://" not in text and len(text.split()) == 1:
        text = _WITHOUT_SCHEME.sub(r"\1", text)
    user = _USER if _IS_URL.match(text) else _QUOTED_USER
    return _PARAMETER.sub(_shown, user.sub("", text)) if "://" in text or "=" in text else text


def _shown(found: re.Match[str]) -> str:
    before, name, _ = found.groups()
    return f"{before}{name}={_HIDDEN}" if _SECRET.search(unquote_plus(name)) else found[0]
