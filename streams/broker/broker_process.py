"""Starts, watches and ends one Kafka process.

`start` returns when Kafka answers, not when its port is open. `stop` ends it in order and kills it if that takes too long. The
data folder outlives the process, so the same broker can be started again on it; `close` deletes a temporary folder.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from schemas.units import Seconds
from streams.broker import broker_settings, jars, preflight
from streams.broker.broker_settings import BrokerSettings
from streams.errors import LogUnavailable

UMASK = 0o077  # for Java, so that all that it writes is private
_FOLDER, _FILE = 0o700, 0o600


# What the broker writes shows what the cluster runs, and may hold passwords. A folder that was there before keeps its rights,
# because it may hold other things, too.
def make_folder(folder: Path) -> None:
    """Make the data folder, private. Raises LogUnavailable when it cannot be made or written."""
    try:
        folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the broker's data folder '{folder}' cannot be made ({error.strerror}): choose another with broker.data"
        raise LogUnavailable(msg) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        msg = f"the broker's data folder '{folder}' cannot be written: choose another with broker.data, or change its owner"
        raise LogUnavailable(msg)


def close_to_others(folder: Path) -> None:
    """Make the folder if it is missing, and close it to others."""
    with suppress(FileExistsError):  # a file of that name: using it as a folder will raise
        folder.mkdir(mode=_FOLDER, exist_ok=True)
        folder.chmod(_FOLDER)  # files that an earlier version wrote there may be readable


def create(file: Path) -> TextIO:
    """The file, empty and private, open for writing."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), _FILE)
    opened = os.fdopen(descriptor, "w", encoding="utf-8")
    file.chmod(_FILE)  # one that was there keeps its rights when it is opened
    return opened


_LOG4J = Path(__file__).with_name("log4j2.properties")
_WATCHDOG = Path(__file__).with_name("watchdog.py")
_TRIES_FOR_A_PORT = 3
_LOCK_WAIT = Seconds(5.0)
_STOP_WAIT = Seconds(30.0)
_QUOTED_LINES = 6
_BUSY = "Address already in use"
_STARTED = "Kafka Server started"


class Broker:
    """One embedded Kafka. `progress` is called with a line of text now and then (the first start fetches 38 MB)."""

    def __init__(self, settings: BrokerSettings, progress: Callable[[str], None] = lambda _line: None) -> None:
        """Nothing happens until `start`."""
        self.settings, self._progress = settings, progress
        self.port, self._controller = settings.port, 0
        self._data: Path | None = settings.data
        self._watchdog: subprocess.Popen[str] | None = None
        self._pid = 0

    @property
    def bootstrap(self) -> str:
        """What clients connect to: host:port."""
        return f"{broker_settings.HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The data folder. Raises LogUnavailable before the first start of a broker with a throw-away one."""
        if self._data is None:
            msg = "the broker has no data folder yet: it was not started"
            raise LogUnavailable(msg)
        return self._data

    @property
    def log(self) -> Path:
        """The file with what Kafka wrote about itself."""
        return self.data / "broker.log"

    @property
    def pid(self) -> int:
        """The process id of Java while it runs. Raises LogUnavailable when it does not."""
        if not self.running:
            msg = f"the broker on {self.bootstrap} does not run"
            raise LogUnavailable(msg)
        return self._pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._watchdog is not None and self._watchdog.poll() is None

    def start(self) -> Self:
        """Start, or start again on the same data and port. Raises LogUnavailable with what to do; leaves nothing behind then."""
        if self.running:
            return self
        undo = self.close if self._data is None else self.stop
        try:
            self._prepare()
            folder = jars.ensure(self.settings.cache, progress=self._progress)
            run = [str(preflight.find_java()), f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"]
            path = ["-cp", jars.classpath(folder, jars.locked())]
            self._progress(f"starting Kafka on {self.bootstrap} ...")
            self._format([*run, "-Xmx128m", "-XX:TieredStopAtLevel=1", *path])
            self._launch([*run, *self._memory(), *path, "kafka.Kafka", str(self._properties)])
        except BaseException:
            undo()
            raise
        return self

    def stop(self) -> None:
        """End the process and keep the data. Harmless when it does not run."""
        watchdog, self._watchdog = self._watchdog, None
        atexit.unregister(self.close)
        if watchdog is None:
            return
        try:
            watchdog.communicate("stop\n", timeout=_STOP_WAIT)
        except subprocess.TimeoutExpired:
            watchdog.kill()
            watchdog.communicate()

    def kill(self) -> None:
        """Kill -9, as a test or a power cut would. The data stays as it is."""
        os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def close(self) -> None:
        """Stop, and delete the data if it was a throw-away folder."""
        self.stop()
        if self.settings.data is None and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    @property
    def _logs(self) -> Path:
        return self.data / "log"

    @property
    def _properties(self) -> Path:
        return self.data / "server.properties"

    def _memory(self) -> list[str]:
        flags = [f"-Xmx{self.settings.heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"]
        return [*flags, "-XX:TieredStopAtLevel=1"] if self.settings.quick else flags

    def _prepare(self) -> None:
        if self._data is None:
            self._data = Path(tempfile.mkdtemp(prefix="ullage-broker-"))
        make_folder(self.data)
        close_to_others(self._logs)
        preflight.check_space(self.data, self.settings.min_free_mb)
        preflight.check_unlocked(self._logs, _LOCK_WAIT)
        self._choose_ports()

    def _choose_ports(self) -> None:
        port, self._controller = preflight.free_ports(2)
        self.port = self.port or port  # the same for all starts, because clients know it; nobody knows the controller's
        preflight.check_port(self.port)
        security = self.settings.security
        text = broker_settings.server_properties(port=self.port, controller=self._controller, logs=self._logs, security=security)
        with create(self._properties) as file:
            file.write(text)

    def _format(self, command: list[str]) -> None:
        if (self._logs / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", "-t", broker_settings.cluster_id(), "-c", str(self._properties)]
        tool += [] if self.settings.security is None else self.settings.security.format_arguments()
        code = self._spawn([*command, *tool]).wait()
        self.stop()
        if code:
            msg = f"formatting the broker's data folder '{self.data}' did not work: {self._last_lines()}"
            raise LogUnavailable(msg)

    def _launch(self, command: list[str]) -> None:
        for attempt in range(1, _TRIES_FOR_A_PORT + 1):
            self._spawn(command)
            if self._is_ready():
                return
            last, alive = self._last_lines(), self.running
            self.stop()
            if _BUSY in last and not self.settings.port and attempt < _TRIES_FOR_A_PORT:
                self.port = 0
                self._choose_ports()
                continue
            if _BUSY in last:
                preflight.check_port(self.port)
            what = f"did not answer within {self.settings.start_timeout:.0f} s" if alive else "ended while it started"
            msg = f"Kafka {what}. The last it wrote to '{self.log}' was: {last}"
            raise LogUnavailable(msg)

    def _spawn(self, command: list[str]) -> "subprocess.Popen[str]":
        throw_away = str(self.data) if self.settings.data is None else ""
        with create(self.log) as log:
            watchdog = self._watchdog = subprocess.Popen(  # noqa: S603  # our own script and command
                [sys.executable, "-I", "-S", str(_WATCHDOG), throw_away, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal reaches us and not Java, so that we can end Java in order
                umask=UMASK,
            )
        atexit.register(self.close)
        line = watchdog.stdout.readline() if watchdog.stdout is not None else ""
        self._pid = int(line) if line.strip() else 0
        return watchdog

    def _last_lines(self) -> str:
        """The last meaningful lines that Java wrote, on one line."""
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        meaningful = [line for line in lines if line and not line.startswith(("WARNING:", "at "))]
        return " | ".join(meaningful[-_QUOTED_LINES:])[-1500:] or "nothing"

    def _is_ready(self) -> bool:
        until, tls = time.monotonic() + self.settings.start_timeout, self.settings.security is not None
        while self.running and time.monotonic() < until:
            written = self.log.read_text(encoding="utf-8", errors="replace")
            # An answer alone may come from another Kafka that took the port meanwhile.
            if _STARTED in written and preflight.answers(self.port, tls=tls, wait=Seconds(2.0)):
                return True
            time.sleep(0.05)
        return False
