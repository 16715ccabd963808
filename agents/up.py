"""Runs `ullage up`: broker, topics, clock, sources and a worker for one cluster, with the recommendations on the screen.

Every part is a process of its own, started through the user's command line as in a real installation, and stopped with this one.
There is no consumer among them, so nothing can write to the cluster. The log stays in the broker's folder, and the next `ullage
up` goes on with it.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

from agents.commands.change import topics
from agents.commands.recommend import recommendations_command
from agents.commands.status import status
from agents.processes import dependency_probes
from agents.processes.child_processes import ChildProcesses
from agents.processes.signals import until_stopped
from agents.settings import cluster_factory, loading, log_factory, setting_texts
from agents.settings.all_settings import Settings
from agents.settings.loading import DEFAULT, LoadedSettings
from agents.terminal.output import data, note
from schemas.units import Seconds
from streams.broker import Broker, BrokerSettings
from streams.errors import BadInput, EdgeError, LogUnavailable
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog

FOLDER = Path(".run/up")
PARTS: Mapping[str, tuple[str, ...]] = {
    "clock": ("source", "clock"),
    "kube": ("source", "kube"),
    "usage": ("source", "usage"),
    "worker": ("worker",),
}
"""Every process that is started. None of them writes to the cluster."""
_EVERY = Seconds(5.0)
"""Seconds between two tables."""
_LOOK = 0.25
_AROUND = 14
"""Lines of a terminal that are not for rows of the table."""
_ENTER, _CLEAR, _LEAVE = "\x1b[?1049h", "\x1b[H\x1b[2J", "\x1b[?1049l"
"""A terminal's second screen: what stood in the first one is there again when we end."""


def run(loaded: LoadedSettings, *, plain: bool) -> None:
    """Show the tables until stopped. Raises BadInput for a cluster that does not answer, and ChildDied when a part gives up."""
    settings = loaded.settings
    _require_cluster(settings)
    live = sys.stdout.isatty() and not plain
    with until_stopped(), ExitStack() as stack:
        folder = _folder()
        values = {**loaded.handed_over(), "log.kind": "kafka", "metrics.port": 0}
        values["log.brokers"] = brokers = _brokers(loaded, folder, stack)
        if loaded.origins.get("cluster.name", DEFAULT) == DEFAULT:
            values["cluster.name"] = cluster_factory.context_name(settings.cluster) or settings.cluster.name
        ours = loading.load(flags={name: setting_texts.written(value) for name, value in values.items()}).settings
        note(f"making the topics at Kafka '{brokers}'")
        with _quiet():
            topics.apply(ours, force=())
        children = ChildProcesses(folder)
        stack.callback(children.stop)
        environment = loading.environment(values)
        for name, command in PARTS.items():
            children.start(name, command, environment=environment, keep=True)
        note(f"the logs of {', '.join(PARTS)} are in {folder}; Ctrl-C ends everything")
        note(f"for more in another terminal: export ULLAGE_LOG__BROKERS={brokers} ULLAGE_CLUSTER__NAME={ours.cluster.name}")
        note(f"watching {cluster_factory.address(settings.cluster)}, called '{ours.cluster.name}' in the log (cluster.name)")
        for blindness in dependency_probes.unseen(settings):
            note(f"{blindness}; `ullage doctor` says what to do")
        with log_factory.log(ours) as log, shown(live=live) as show:
            for screen in _screens(log, ours, children):
                show(screen)


def _require_cluster(settings: Settings) -> None:
    """Raises BadInput for a cluster that does not answer; from background processes the user would not learn that."""
    try:
        dependency_probes.api_server(settings)()
    except EdgeError as error:
        raise BadInput(f"the cluster cannot be watched: {error}. `ullage doctor` looks at it more closely") from error


def _folder() -> Path:
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"the folder '{FOLDER}' for logs and data cannot be made ({error.strerror}): go to a folder of yours"
        ) from error
    return FOLDER


def _brokers(loaded: LoadedSettings, folder: Path, stack: ExitStack) -> str:
    """The bootstrap servers: those that were given, or a broker that runs as long as we do."""
    if loaded.origins.get("log.brokers", DEFAULT) != DEFAULT:
        log_factory.answering_connection(loaded.settings)
        note(f"joining the Kafka at '{loaded.settings.log.brokers}', which log.brokers names")
        return loaded.settings.log.brokers
    note("starting Apache Kafka ...")
    return stack.enter_context(Broker(BrokerSettings(data=folder / "kafka", quick=True), progress=note)).bootstrap


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard what is printed."""
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


def _screens(log: Log, settings: Settings, children: ChildProcesses) -> Iterator[list[str]]:
    """The screens to show. Raises ChildDied when a part keeps ending."""
    context = LogContext.of(log, log_factory.topics(settings), settings.cluster.name)
    due = time.monotonic()
    while True:
        children.check()
        if time.monotonic() >= due:
            try:
                yield _screen(context, settings)
            except LogUnavailable as error:
                yield [str(error)]
            due = time.monotonic() + _EVERY
        time.sleep(_LOOK)


def _screen(context: LogContext, settings: Settings) -> list[str]:
    """The table and what every part does, as many rows as fit."""
    rows = recommendations_command.read(context, settings)
    tick = OperatorLog(context).newest_tick()
    parts = list(
        status.lines([row for row in status.read(context, settings, tick) if row.kind in {"clock", "source", "stage"}], "table")
    )
    room = max(5, shutil.get_terminal_size().lines - _AROUND)
    more = [f"... and {len(rows) - room} more: `ullage recommendations` shows all"] if len(rows) > room else []
    table = recommendations_command.lines(rows, "table", room) if rows else ()
    return [*table, *more, "", recommendations_command.summary(rows, settings.cluster.name), "", *parts, ""]


@contextmanager
def shown(*, live: bool) -> Iterator[Callable[[Sequence[str]], None]]:
    """What shows a table: one below the other, or where it is `live` on a screen of their own, and the last one at the end."""
    last: list[str] = []

    def show(lines: Sequence[str]) -> None:
        last[:] = lines
        if live:
            sys.stdout.write(_CLEAR)
        for line in lines:
            data(line)
        sys.stdout.flush()

    if not live:
        yield show
        return
    sys.stdout.write(_ENTER)
    try:
        yield show
    finally:
        sys.stdout.write(_LEAVE)
        for line in last:
            data(line)
