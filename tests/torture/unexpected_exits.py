"""Which ends of processes nobody provided for: each makes a run WRONG.

A process may end by itself only for a reason that the run brought about and that can be shown: it died on purpose and said so in
its log, or it ended with code 75 (the log is unavailable) while the broker was away, soon after that, or soon after a freeze.
"""

from collections.abc import Iterable, Iterator, Sequence

from tests.torture.processes import Process, ProcessEnd

ON_PURPOSE = 9
"""The code of a process that dies on purpose ..."""
CONFESSIONS = ("torn on purpose", "died between act and outcome", "died: ")
"""... and what it says then."""
UNAVAILABLE = 75
PATIENCE = 90.0
"""Seconds of real time after the broker came back, or a process woke up, in which a client may still give up for it."""
SHOWN = 300
"""Characters of a log's last line that are quoted."""

Absences = Sequence[tuple[float, float]]
"""When the broker was away, in seconds since the epoch."""


def unexpected(processes: Iterable[Process], away: Absences = ()) -> list[str]:
    """A sentence for each end that nothing excuses."""
    by_log: dict[str, list[Process]] = {}
    for process in processes:
        by_log.setdefault(str(process.log), []).append(process)
    return [says for group in by_log.values() for says in _of_one_log(group, away)]


def _of_one_log(processes: Sequence[Process], away: Absences) -> Iterator[str]:
    """Of processes that write one log, which does not say whose a line is."""
    name, lines = processes[0].log.stem, processes[0].lines("")
    confessed = sum(line.startswith(CONFESSIONS) for line in lines)
    for process in processes:
        for end in process.ends:
            if end.code == ON_PURPOSE and confessed > 0:
                confessed -= 1
            elif end.code != UNAVAILABLE or not _broker_was_away(end, process, away):
                yield f"{name} ended by itself with code {end.code}{_last_words(lines, end.code)}"


def _broker_was_away(end: ProcessEnd, process: Process, away: Absences) -> bool:
    spans = [*away, *((woke, woke) for woke in process.wakes)]
    return any(begin <= end.at and end.after <= back + PATIENCE for begin, back in spans)


def _last_words(lines: Sequence[str], code: int) -> str:
    """What its log says of that end: the line with that exit code, or else the last one."""
    said = [line for line in lines if f'"exit": {code}' in line] or lines[-1:]
    return f": {said[-1][:SHOWN]}" if said else ""
