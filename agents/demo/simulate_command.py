"""Runs `ullage simulate`: a scenario in virtual time, with the whole pipeline and its consumers, and its results.

The same scenario file gives the same log, byte for byte. The log may be kept, and every command that looks back reads it.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agents.demo import day_in_memory, scenario_file
from agents.demo.day_state import DayState, LogWatcher
from agents.demo.demo_settings import START, Day
from agents.demo.scenario_file import Scenario
from agents.processes.signals import stoppable
from agents.processes.simulated_cluster import open_shop
from agents.run.pipeline import stages
from agents.run.simulate import simulate
from agents.settings import event_times
from agents.settings.loading import load
from agents.telemetry import logging_setup
from agents.terminal import output_table
from agents.terminal.output import note
from agents.terminal.output_table import TextForm
from schemas.outcomes import Action
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.units import Fraction, counted
from streams.errors import BadInput
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.demo_shop import ShopSettings

_CLUSTER = "demo"


def run(file: Path, *, keep: Path | None, given: Sequence[str], form: TextForm) -> None:
    """Play the scenario to its end and print what happened. Raises BadInput.

    `keep`: a folder for the log and its settings. `given` are settings of the command line, which win over the file's.
    """
    scenario, ours = scenario_file.read(file), dict[str, str]()
    for item in given:
        name, _, value = item.partition("=")
        ours[name] = value
    logging_setup.set_up("simulate", stream=io.StringIO())
    with stoppable():
        day, log = play(scenario, ours)
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"--keep '{keep}' cannot be made: {error.strerror}; name a folder that you may write to") from error
        day_in_memory.save(log, day.topics, day.settings() | ours, keep)
        note(f"the log is kept: `ullage timeline --log {keep / 'log.jsonl'}`")
    _print(LogWatcher(log, day.topics).catch_up(), scenario, form=form)


def play(scenario: Scenario, given: Mapping[str, str]) -> tuple[Day, MemoryLog]:
    """The scenario's day and its whole log; `given` are settings that win over the scenario's. Raises BadInput."""
    length = event_times.duration(scenario.length, "length")
    day = Day(scenario.seed, 1.0, partitions=1, cluster=_CLUSTER, length=length, special=scenario.settings)
    log = day_in_memory.new_log(day)
    context = LogContext.of(log, day.topics, day.cluster)
    values = {name: str(value) for name, value in scenario.settings.items()} | dict(given)
    settings = load(flags=values | {"topics.partitions": "1"}).settings
    OperatorLog(context).publish(
        ControlChanged(START, day.cluster, Mode.APPLY, reason="the scenario acts", budget=Fraction(scenario.budget)),
        VerticalPolicyChanged(START, f"{day.cluster}/*", "scenario", scenario.mode),
    )
    ours = ShopSettings(
        day.cluster,
        day.seed,
        day.start,
        day.tick,
        tuple(scenario_file.nodes(scenario)),
        tuple(scenario_file.deployments(scenario)),
        tuple(scenario_file.groups(scenario, day.start)),
        scenario_file.rules(scenario, day.start),
    )
    world = day_in_memory.acted_on(open_shop(ours, log, day.topics), context)
    for taken in simulate(context, stages(settings), world, day_in_memory.pace(day)):
        if taken.at >= day.end:
            day_in_memory.close(log, taken.tasks)
            break
    return day, log


def _print(state: DayState, scenario: Scenario, *, form: TextForm) -> None:
    summary = {
        "length": scenario.length,
        "seed": scenario.seed,
        "pods": state.pods,
        "recommended": state.recommended,
        "resized": state.done[Action.RESIZE],
        "evicted": state.done[Action.EVICT],
        "admitted": state.done[Action.PATCH],
        "oom_kills": state.ooms,
        "scaled": state.done[Action.SCALE],
        **_nodes(state),
        "decided": dict(sorted(state.decided.items())),
    }
    output_table.print_text(form, _lines(state, scenario), summary)


def _lines(state: DayState, scenario: Scenario) -> Iterator[str]:
    """For people. Raises BadInput."""
    if not state.pods:
        raise BadInput("no pod of the scenario ever ran: are the nodes too small?")
    yield f"{scenario.length} of {state.pods} pods, seed {scenario.seed}"
    yield f"{state.done[Action.RESIZE]} resized in place, {state.done[Action.EVICT]} evicted, {state.ooms} OOM kills"
    if state.done[Action.PATCH]:
        yield f"{state.done[Action.PATCH]} new pods given other requests"
    if state.done[Action.SCALE]:
        yield f"scaled {counted(state.done[Action.SCALE], 'time')}"
    for name, value in _nodes(state).items():
        yield f"{name.replace('_', ' ')}: {value}"
    for kind, count in sorted(state.decided.items()):
        yield f"  {count:>7,}  {kind}"


def _nodes(state: DayState) -> dict[str, object]:
    """What happened to groups of nodes, if there are any."""
    if not state.nodes:
        return {}
    return {
        "node_hours": round(state.nodes.hours(state.at), 1),
        "nodes_at_the_end": state.nodes.count(state.at),
        "groups_grown": state.done[Action.SCALE_UP],
        "nodes_removed": state.done[Action.REMOVE_NODE],
    }
