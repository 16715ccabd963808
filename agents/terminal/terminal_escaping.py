"""Escapes what a terminal would obey, above all control characters, in texts that others wrote.

Names, reasons and messages come from tenants, clusters and logs. An escape sequence in one of them could clear the screen, set
the title or repaint a line; a direction mark could make a text read as another. The escapes are JSON's, so JSON stays valid.
"""

import re

_LINE_BREAK = "\n"
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls of ASCII and Latin-1, except tab and line break
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # direction marks, zero-width characters, and other line ends
    "\ud800-\udfff]"  # lone surrogates, which no output takes
)


def visible(text: str) -> str:
    """The text with everything escaped that a terminal would obey; line breaks and tabs stay."""
    return _OBEYED.sub(_spelled, text)


def visible_line(text: str) -> str:
    """As `visible`, and on one line: a line break in a name must not look like a line of ours."""
    return visible(text).replace(_LINE_BREAK, "\\n")


def _spelled(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
