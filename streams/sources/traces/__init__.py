"""The traces source: a recorded usage trace (Parquet or CSV), played into the log as if a cluster were watched.

    with Trace(Path("usage.parquet")) as trace:
        for progress in Player(trace, log=log, codec=codec, topics=topics, ticked=names).play():
            ...

Columns are found by name (columns), the file is sorted by time in bounded memory (table), rows become facts (facts), and facts
go to the log at a pace or as fast as it takes them (play).
"""

from streams.sources.traces.player import Player, Playing, Progress
from streams.sources.traces.trace_table import Trace

__all__ = ["Player", "Playing", "Progress", "Trace"]
