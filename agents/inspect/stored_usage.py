"""The recording of which a command is told: a file, or what a Prometheus server stored, written as a trace first."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agents.inspect.scan_command import of_context
from agents.processes.output import note
from agents.processes.signals import stoppable
from agents.processes.source_clock import event_time
from agents.processes.source_usage import metric_names, prometheus
from agents.settings.loading import LoadedSettings
from schemas.units import Seconds
from streams.errors import BadInput, GiveUp, TryAgain
from streams.sources.usage.history.history_source import HistoryPeriod
from streams.sources.usage.history.stored_trace import StoredTrace


@contextmanager
def recording(loaded: LoadedSettings, file: Path | None, *, stored: bool, keep: Path | None) -> Iterator[Path]:
    """The file, or with `stored` a trace of what the settings' server has, which is kept at `keep`. Raises BadInput."""
    if stored == (file is not None):
        raise BadInput("give either a FILE with recorded usage or --prometheus-url, and not both")
    if keep is not None and not stored:
        raise BadInput("--keep is for what --prometheus-url gives; the FILE is there already")
    if keep is not None and keep.suffix != ".parquet":
        raise BadInput(f"--keep '{keep}' is written as Parquet: give it a name in .parquet")
    if file is not None:
        yield file
        return
    with TemporaryDirectory(prefix="ullage-backtest-") as folder:
        to = keep or Path(folder) / "usage.parquet"
        with stoppable():
            _write(loaded, to)
        yield to


def _write(loaded: LoadedSettings, to: Path) -> None:
    settings = of_context(loaded, "")
    now = event_time(settings).replace(microsecond=0)
    period = HistoryPeriod(now, Seconds(settings.history.length_seconds), Seconds(settings.history.resolution_seconds))
    trace = StoredTrace(prometheus(settings.prometheus), metric_names(settings), period)
    try:
        for rows in trace.write(to):
            note(f"{rows:,} samples read")
    except (TryAgain, GiveUp) as error:
        raise BadInput(f"reading what is stored did not work: {error}") from error
