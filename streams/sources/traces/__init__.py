"""The traces source: a recorded usage trace (Parquet or CSV), played into the log as if a source watched the cluster.

    with Trace(Path("usage.parquet")) as trace:
        for progress in TracePlayer(trace, context, ticked=names).play():
            ...

Columns are found by name (`trace_columns`), the file is sorted by time in bounded memory (`trace_table`), rows become facts
(`trace_facts`), and facts go to the log at a pace or as fast as it accepts them (`player`).
"""

from streams.sources.traces.player import Playback, PlaybackProgress, TraceMoments, TracePlayer
from streams.sources.traces.trace_table import Trace, TracePart

__all__ = ["Playback", "PlaybackProgress", "Trace", "TraceMoments", "TracePart", "TracePlayer"]
