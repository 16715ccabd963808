"""Schedules as `ullage mode --schedule` takes them: what a ControlSchedule prints, with `h` and `%` beside minutes and shares."""

import re

from agents.settings import setting_texts
from schemas.policies.control import ControlSchedule, Mode
from schemas.units import Fraction
from streams.errors import BadInput

EXAMPLE = "0 9 * * mon-fri Europe/Berlin for 8h: mode shadow (office hours)"
_WRITTEN = re.compile(
    r"(?P<begins>@[a-z]+|(?:\S+\s+){4}\S+)(?:\s+(?P<zone>\S+))?\s+for\s+(?P<count>\d{1,5})\s*(?P<unit>min|h)\s*:"
    r"(?P<says>[^()]*)(?:\((?P<reason>.*)\))?\s*",
    re.DOTALL,
)
_MINUTES = {"min": 1, "h": 60}


def read(text: str) -> ControlSchedule:
    """A schedule. Raises BadInput for what cannot be read; whether it may be said is not looked at."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise BadInput(f"--schedule '{text}' is none; one is '{EXAMPLE}', with mode, budget or paused, and commas between them")
    mode: Mode | None = None
    budget: Fraction | None = None
    paused = False
    for words in (part.split() for part in found["says"].split(",")):
        match words:
            case ["mode", word] if word in set(Mode):
                mode = Mode(word)
            case ["budget", share]:
                budget = _share(share, text)
            case ["paused"]:
                paused = True
            case _:
                said, modes = " ".join(words), ", ".join(Mode)
                raise BadInput(f"--schedule '{text}' says '{said}'; it says `mode` ({modes}), `budget` with a share, or `paused`")
    minutes = int(found["count"]) * _MINUTES[found["unit"]]
    begins = " ".join(found["begins"].split())
    return ControlSchedule(begins, minutes, found["zone"] or "", mode, budget, paused, found["reason"] or "")


def _share(share: str, text: str) -> Fraction:
    try:
        return Fraction(setting_texts.share(share))
    except ValueError as error:
        raise BadInput(f"--schedule '{text}' has the budget '{share}', which is no share of pods, such as 0.05 or 5%") from error
