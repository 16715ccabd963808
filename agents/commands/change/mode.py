"""Runs `ullage mode`: how far Ullage may go in a cluster. `pause` and `resume` change a cluster's control in the same way."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from agents.commands.change import command_objects
from agents.commands.change.operator_session import operator_session
from agents.settings import log_factory, setting_texts
from agents.settings.all_settings import Settings
from agents.terminal.output import note, sentence
from schemas import times
from schemas.policies.control import ControlChanged, ControlSchedule, Mode, refusals
from schemas.units import Fraction
from streams.errors import BadInput
from streams.publishing import source_reports
from streams.publishing.operator_log import NewestTick, OperatorLog


def run(  # noqa: PLR0913  # one for each flag
    settings: Settings,
    *,
    mode: Mode,
    budget: str | None,
    reason: str,
    schedules: Sequence[str] = (),
    on_an_open_log: bool = False,
    unless_an_object_says: bool = False,
    as_object: bool = False,
) -> None:
    """Set the mode, the schedules, and the budget (`10%` or `0.1`) unless it is None. A pause stays.

    With `as_object`, nothing is changed, and the ClusterControl is printed that says so, and else what is in force. With
    `unless_an_object_says`, nothing is done where an object of the cluster commands. Raises BadInput, also for mode apply on a
    log that anybody may write, unless it is wanted so.
    """
    if as_object:
        _print_object(settings, mode, budget, reason, tuple(map(read_schedule, schedules)), on_an_open_log=on_an_open_log)
        return
    # who asks so runs unattended, as the chart's hook does, and must not undo what an object says
    if unless_an_object_says:
        with operator_session(settings) as (operator, _):
            last = operator.control(settings.cluster.name)
        if last is not None and last.through:
            sentence(f"{settings.cluster.name} is left as it is: {describe(last)}")
            return
    plan = tuple(map(read_schedule, schedules))
    if Mode.APPLY in (mode, *(schedule.mode for schedule in plan)) and not on_an_open_log and settings.log.kind == "kafka":
        _require_rights(settings)
    change_control(settings, mode=mode, budget=None if budget is None else _share(budget), reason=reason, schedules=plan)


def _print_object(  # noqa: PLR0913  # one for each value of the object
    settings: Settings,
    mode: Mode,
    budget: str | None,
    reason: str,
    schedules: tuple[ControlSchedule, ...],
    *,
    on_an_open_log: bool,
) -> None:
    cluster = settings.cluster.name
    with log_factory.context_to_read(settings) as (context, _):
        # an object has no time, so any will do
        last = OperatorLog(context).control(cluster) or ControlChanged(times.from_ms(0), cluster, mode)
    # an object says all of it, so one without what is in force would end a pause, and nobody who sets a mode wants that
    control = replace(
        last,
        mode=mode,
        budget=last.budget if budget is None else Fraction(_share(budget)),
        reason=last.reason if last.paused else reason,
        schedules=schedules or last.schedules,
    )
    if (refusal := next(refusals(control), None)) is not None:
        raise BadInput(refusal)
    command_objects.print_control(control, on_an_open_log=on_an_open_log)


def change_control(  # noqa: PLR0913  # one for each value of the record
    settings: Settings,
    *,
    reason: str,
    mode: Mode | None = None,
    budget: float | None = None,
    paused: bool | None = None,
    schedules: tuple[ControlSchedule, ...] = (),
) -> None:
    """Publish the cluster's newest control with these changes, and print the result.

    None leaves a value as it is; a mode comes with its schedules, and ends those of before. Raises BadInput.
    """
    cluster = settings.cluster.name
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, cluster)
        last = operator.control(cluster) or ControlChanged(at, cluster, Mode.SHADOW)
        if last.through and paused is not True:  # a pause must not depend on a source that hears the object
            raise BadInput(_elsewhere(last, mode=mode, budget=budget, paused=paused))
        if paused is False and not last.paused:
            now = last.in_force_at(at)
            why = "is paused by a schedule, which `resume` does not end" if now.paused else "is not paused"
            sentence(f"{cluster} {why}: {describe(last, at)}")
            return
        changed = replace(
            last,
            at=at,
            mode=last.mode if mode is None else mode,
            budget=last.budget if budget is None else Fraction(budget),
            paused=last.paused if paused is None else paused,
            # the reason shown during a pause is the pause's own
            reason=reason if paused is not None or not last.paused else last.reason,
            by=operator.author,
            # whoever changes it by hand takes it over from the object: only a pause comes here with one
            through="",
            schedules=schedules if mode is not None else last.schedules,
        )
        if (refusal := next(refusals(changed), None)) is not None:
            raise BadInput(f"{refusal}: nothing was changed")
        silent = silence(operator.newest_tick(), int(time.time() * 1000))  # noqa: TID251  # the log's own time is real, too
        operator.publish(changed)
    sentence(f"{cluster}: {describe(changed, at)}")
    # a pause in a log that was moved, or of another prefix, stops nobody
    if silent is not None:
        note(silent)
    _say_what_follows(last, changed, applies=Mode.APPLY in (mode, *(schedule.mode for schedule in schedules)))


def _say_what_follows(last: ControlChanged, changed: ControlChanged, *, applies: bool) -> None:
    for schedule in changed.schedules:
        sentence(f"  {schedule}")
    # nobody expects that a mode given by hand ends schedules
    if last.schedules and not changed.schedules:
        note(f"its schedules ({len(last.schedules)}) are in force no more")
    if last.through:
        instead = _elsewhere(last, mode=None, budget=None, paused=True)
        note(f"a source that is at work undoes this within a minute, if the object's newest spec can be obeyed: {instead}")
    if applies:
        note("mode apply is experimental (alpha); docs/incidents-tried.md lists what it was tried against, and what is left")


_SILENT_MS = 5 * 60 * 1000


def silence(tick: NewestTick | None, now_ms: int) -> str | None:
    """Why perhaps nobody hears what is written here; None where the clock is at work, has never been, or nothing says when."""
    if tick is None or tick.appended_ms < 0 or now_ms - tick.appended_ms < _SILENT_MS:
        return None
    minutes = (now_ms - tick.appended_ms) // 60_000
    return (
        f"no tick has come for {minutes} min, so perhaps nobody hears this: is it the log that is at work (topics.prefix, "
        "log.brokers)? `topics move` leaves the old one as it was"
    )


def _elsewhere(last: ControlChanged, *, mode: Mode | None, budget: float | None, paused: bool | None) -> str:
    changes = {"mode": None if mode is None else mode.value, "budget": budget, "paused": paused}
    spec = json.dumps({"spec": {name: value for name, value in changes.items() if value is not None}})
    kind, _, name = last.through.partition("/")
    return (
        f"the object {last.through} says how far Ullage may go in cluster '{last.cluster}', so only that object changes it: "
        f"kubectl patch {kind.lower()} {name} --type merge -p '{spec}'. Once it is deleted, this command may change it again"
    )


def _require_rights(settings: Settings) -> None:
    from streams.admin import kafka_users  # Kafka's client is heavy, and other logs do without

    # in a log without logins a stranger's ControlChanged would evict pods as well as ours
    why = kafka_users.why_open(log_factory.answering_connection(settings))
    if why is not None:
        raise BadInput(
            f"mode apply obeys whoever can write into the log. {why}. Give it logins and the rights of docs/security.md "
            "(log.security), or say --on-an-open-log"
        )


def _share(text: str) -> float:
    try:
        share = setting_texts.share(text)
    except ValueError:
        # below 0, so that a text that is no number is refused by the same sentence
        share = -1.0
    if not 0 <= share <= 1:
        raise BadInput(f"--budget '{text}' is no share of pods: it is between 0 and 1, as in --budget 0.1 or --budget 10%")
    return share


def describe(record: ControlChanged, now: datetime | None = None) -> str:
    """`apply, 10% of the pods at one time; PAUSED: database migration; set by alice (Kafka principal)`.

    With `now`, as its schedules have it at that time.
    """
    control = record if now is None else record.in_force_at(now)
    applying = 0 if now is None else sum(schedule.applies(now) for schedule in record.schedules)
    schedules = f"; schedules: {len(record.schedules)}" if record.schedules else ""
    schedules += "" if not schedules or now is None else f", {applying} of them now"
    why = f": {control.reason}" if control.reason else ""
    state = f"; PAUSED{why}" if control.paused else f" ({control.reason})" if control.reason else ""
    through = f" through {control.through}" if control.through else ""
    by = f"; set{through}" if control.by is None and through else "" if control.by is None else f"; set by {control.by}{through}"
    return f"{control.mode.value}, {control.budget:.0%} of the pods at one time{state}{schedules}{by}"


# Runs `ullage pause` and `ullage resume`. Mode and budget stay what they are.


def pause(settings: Settings, *, reason: str) -> None:
    """Stop all changes to the cluster."""
    change_control(settings, paused=True, reason=reason)


def resume(settings: Settings, *, reason: str) -> None:
    """End a pause."""
    change_control(settings, paused=False, reason=reason)


# Schedules as `ullage mode --schedule` takes them: what a ControlSchedule prints, with `h` and `%` beside minutes and shares.


SCHEDULE_EXAMPLE = "0 9 * * mon-fri Europe/Berlin for 8h: mode shadow (office hours)"
_WRITTEN = re.compile(
    r"(?P<begins>@[a-z]+|(?:\S+\s+){4}\S+)(?:\s+(?P<zone>\S+))?\s+for\s+(?P<count>\d{1,5})\s*(?P<unit>min|h)\s*:"
    r"(?P<says>[^()]*)(?:\((?P<reason>.*)\))?\s*",
    re.DOTALL,
)
_MINUTES = {"min": 1, "h": 60}


def read_schedule(text: str) -> ControlSchedule:
    """A schedule. Raises BadInput for what cannot be read; whether it may be said is not looked at."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise BadInput(
            f"--schedule '{text}' is none; one is '{SCHEDULE_EXAMPLE}', with mode, budget or paused, and commas between them"
        )
    mode: Mode | None = None
    budget: Fraction | None = None
    paused = False
    for words in (part.split() for part in match["says"].split(",")):
        match words:
            case ["mode", word] if word in set(Mode):
                mode = Mode(word)
            case ["budget", share]:
                budget = _share_of_schedule(share, text)
            case ["paused"]:
                paused = True
            case _:
                clause, modes = " ".join(words), ", ".join(Mode)
                raise BadInput(
                    f"--schedule '{text}' says '{clause}'; it says `mode` ({modes}), `budget` with a share, or `paused`"
                )
    minutes = int(match["count"]) * _MINUTES[match["unit"]]
    # however it was spaced, so that one schedule has one text in the log
    begins = " ".join(match["begins"].split())
    return ControlSchedule(begins, minutes, match["zone"] or "", mode, budget, paused, match["reason"] or "")


def _share_of_schedule(share: str, text: str) -> Fraction:
    try:
        return Fraction(setting_texts.share(share))
    except ValueError as error:
        raise BadInput(f"--schedule '{text}' has the budget '{share}', which is no share of pods, such as 0.05 or 5%") from error
