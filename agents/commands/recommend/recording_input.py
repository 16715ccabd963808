"""The recording for a command: a file, or the data of a Prometheus server, which is first written as a trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from agents.processes.signals import stoppable
from agents.settings.loading import LoadedSettings
from agents.terminal.output import note
from streams.errors import BadInput, GiveUp, TryAgain


@contextmanager
def recording(
    loaded: LoadedSettings, file: Path | None, *, stored: bool, keep: Path | None, until: datetime | None = None
) -> Iterator[Path]:
    """The file, or with `stored` a trace of what the server has up to `until`, which is kept at `keep`. Raises BadInput."""
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
            _write(loaded, to, until)
        yield to


def _write(loaded: LoadedSettings, to: Path, until: datetime | None) -> None:
    from agents.commands.recommend.scan_command import of_context
    from agents.processes.source_usage import history_period, metrics_store, warn_of_clusters
    from streams.sources.usage.history.stored_trace import StoredTrace

    settings = of_context(loaded, "")
    store, period = metrics_store(settings), history_period(settings, until)
    warn_of_clusters(store, period.end)
    trace = StoredTrace(store.server, store.names, period)
    try:
        for rows in trace.write(to):
            note(f"{rows:,} samples read")
    except (TryAgain, GiveUp) as error:
        raise BadInput(f"reading what is stored did not work: {error}") from error
