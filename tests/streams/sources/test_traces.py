import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pytest

from agents.logic.usage.container_usage import ContainerUsage, UsageSettings
from agents.run.stage_topics import input_topics
from schemas.catalogue import Event
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, Workload
from streams import clock_log
from streams.clock_rules import Counted, TimeBase
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.log.log_port import Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.traces import Playback, PlaybackProgress, Trace, TracePlayer, trace_facts, trace_table
from streams.sources.traces.trace_facts import FactRouter, TraceFacts
from streams.topics import TOPICS, Topics
from tests.support.real_traces import trace

PAPERS = Topics(partitions=2)
READ = input_topics()
Y2026 = datetime(2026, 1, 1, tzinfo=UTC)


def empty_log() -> MemoryLog:
    log = MemoryLog()
    for topic in TOPICS:
        log.create(PAPERS.wire(topic.name), PAPERS.partitions)
    return log


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "usage.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def records(log: MemoryLog, name: str) -> Sequence[Record]:
    wire = PAPERS.wire(name)
    return [r for p in range(2) for r in log.poll({(wire, p): 0}, limit=10**9)]


def events(log: MemoryLog, name: str) -> list[Event]:
    reader = Codec(PAPERS)
    return [reader.decode(r) for r in records(log, name) if not event_codec.is_of_a_clock(r)]


def play(path: Path, playback: Playback | None = None, cluster: str = "trace") -> tuple[MemoryLog, PlaybackProgress]:
    log = empty_log()
    with Trace(path) as trace:
        progress = list(TracePlayer(trace, LogContext.of(log, PAPERS, cluster), playback).play())
    return log, progress[-1]


def rows(log: MemoryLog) -> list[tuple[float, str, str, str, float, float]]:
    """Seconds since 2026, workload, pod, container, cores, memory of every row, in order of time."""
    found = []
    for event in events(log, "pod-metrics"):
        assert isinstance(event, MetricsScraped)
        columns = zip(event.workloads, event.pods, event.containers, event.cores.tolist(), event.memory.tolist(), strict=True)
        found += [((event.at - Y2026).total_seconds(), *row) for row in columns]
    return sorted(found)


SMALL = ("container_id,timestamp_s,cpu_cores,memory_bytes", "b,60,0.5,200", "a,60,0.25,100", "a,120,0.75,300")


def test_rows_become_scrapes_in_order_of_time(tmp_path: Path) -> None:
    log, progress = play(csv(tmp_path, *SMALL))
    a, b = "trace/trace/Deployment/a", "trace/trace/Deployment/b"
    assert rows(log) == [(60, a, "a", "main", 0.25, 100), (60, b, "b", "main", 0.5, 200), (120, a, "a", "main", 0.75, 300)]
    assert (progress.rows, progress.of, progress.at) == (3, 3, Y2026 + timedelta(seconds=180))
    assert progress.records == sum(len(records(log, topic.name)) for topic in TOPICS)


def test_a_scrape_of_more_rows_than_a_record_may_have_is_several_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv(tmp_path, SMALL[0], *(f"c{i},60,0.5,200" for i in range(20)))
    whole, _ = play(path)
    monkeypatch.setattr(trace_facts, "ROWS", 3)
    cut, _ = play(path)
    assert rows(cut) == rows(whole)
    assert len(records(whole, "pod-metrics")) < len(records(cut, "pod-metrics"))
    assert max(len(event.pods) for event in events(cut, "pod-metrics") if isinstance(event, MetricsScraped)) == 3


def test_a_pod_is_seen_with_its_first_sample_and_gone_a_step_after_its_last(tmp_path: Path) -> None:
    log, _ = play(csv(tmp_path, *SMALL))
    for topic in ("pod-changes", "pod-changes-by-cluster"):
        seen = sorted((e.pod.name, type(e).__name__, (e.at - Y2026).total_seconds()) for e in events(log, topic))
        assert seen == [("a", "PodChanged", 60), ("a", "PodDeleted", 180), ("b", "PodChanged", 60), ("b", "PodDeleted", 120)]


def test_facts_stand_in_the_partitions_of_their_keys(tmp_path: Path) -> None:
    log, _ = play(csv(tmp_path, *SMALL))
    reader = Codec(PAPERS)
    for record in (r for name in ("pod-metrics", "pod-changes") for r in records(log, name) if not event_codec.is_of_a_clock(r)):
        event = reader.decode(record)
        keys = event.workloads if isinstance(event, MetricsScraped) else [event.workload.key]
        assert {PAPERS.partition_of(key) for key in keys} == {record.partition}
    by_cluster = {r.partition for r in records(log, "pod-changes-by-cluster") if not event_codec.is_of_a_clock(r)}
    assert by_cluster == {PAPERS.partition_of("trace")}


def test_a_tick_follows_each_scrape_so_that_every_scrape_is_a_turn(tmp_path: Path) -> None:
    log, _ = play(csv(tmp_path, *SMALL))
    start = int(Y2026.timestamp()) * 1000
    ticks = list(clock_log.ticks_from(log, PAPERS, Counted()))
    assert [tick.number - start for tick in ticks] == [60_000, 120_000, 180_000]
    at = dict.fromkeys(ticks[0].moved, 0)
    for tick in ticks:
        for (name, partition), end in tick.moved.items():
            found = log.poll({(PAPERS.wire(name), partition): at[name, partition]})
            times = [Codec(PAPERS).decode(r).at for r in found if r.offset < end]
            assert all(round(each.timestamp() * 1000) == tick.number for each in times)
            at[name, partition] = end


def test_units_are_in_the_names_of_the_columns(tmp_path: Path) -> None:
    path = csv(tmp_path, "container,time_ms,cpu_millicores,memory_mib", "a,60000,250,2")
    log, _ = play(path)
    assert rows(log) == [(60, "trace/trace/Deployment/a", "a", "main", 0.25, 2 * 2**20)]


def test_a_column_of_dates_is_time(tmp_path: Path) -> None:
    path = csv(tmp_path, "container_id,timestamp,cpu_cores,memory_bytes", "a,2026-01-01 00:01:00,1,2")
    log, _ = play(path)
    assert rows(log)[0][0] == 60


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_with_an_offset_mean_the_same_on_every_machine(tmp_path: Path, zone: str) -> None:
    path = csv(tmp_path, "container_id,timestamp,cpu_cores,memory_bytes", "a,2026-01-01 02:01:00+02,1,2")
    show = "import sys, pathlib; from streams.sources.traces import Trace; print(Trace(pathlib.Path(sys.argv[1])).first)"
    done = subprocess.run(
        [sys.executable, "-c", show, str(path)], env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == Y2026.timestamp() + 60


def test_unix_time_stays_unless_a_start_is_given(tmp_path: Path) -> None:
    path = csv(tmp_path, SMALL[0], "a,1372629900,1,1", "a,1372630200,1,1")
    with Trace(path) as trace:
        assert (trace.is_unix, trace.step, trace.first) == (True, 300, 1_372_629_900)
    assert [e.at for e in events(play(path)[0], "pod-metrics")] == [datetime(2013, 6, 30, 22, m, tzinfo=UTC) for m in (5, 10)]
    moved = play(path, Playback(start=Y2026))[0]
    assert [e.at for e in events(moved, "pod-metrics")] == [Y2026, Y2026 + timedelta(seconds=300)]


def test_an_amount_that_is_empty_is_not_zero(tmp_path: Path) -> None:
    log, _ = play(csv(tmp_path, SMALL[0], "a,60,,100", "b,60,1,"))
    (cores_a, memory_a), (cores_b, memory_b) = [row[4:] for row in rows(log)]
    assert np.isnan([cores_a, memory_b]).all()
    assert (memory_a, cores_b) == (100, 1)


def test_jobs_are_workloads_and_limits_stand_for_requests(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        "container_id,job_id,timestamp_s,cpu_cores,memory_bytes,cpu_limit_cores,memory_limit_bytes",
        "t-1,7,60,1,10,2,100",
        "t-2,7,60,1,10,2,100",
        "t-1,7,120,1,10,2,100",
        "t-1,7,180,1,10,2,150",
    )
    log, _ = play(path, cluster="demo")
    seen = [e for e in events(log, "pod-changes") if isinstance(e, PodChanged)]
    assert {e.workload for e in seen} == {Workload("demo", "trace", "Deployment", "7")}
    found = [(e.pod.name, (e.at - Y2026).total_seconds(), e.containers[0]) for e in seen]
    first, second = Amounts(2.0, 100), Amounts(2.0, 150)
    assert found == [
        ("t-1", 60, ContainerSeen("main", first, first, ready=True)),
        ("t-2", 60, ContainerSeen("main", first, first, ready=True)),
        ("t-1", 180, ContainerSeen("main", second, second, ready=True)),
    ]
    assert seen[2].created == seen[0].created


def test_a_pod_may_have_several_containers_and_a_namespace(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        "namespace,workload,pod,container,timestamp_s,cpu_cores,memory_bytes,cpu_request_cores",
        "shop,cart,cart-1,app,60,1,10,0.5",
        "shop,cart,cart-1,proxy,120,1,10,0.1",
    )
    log, _ = play(path)
    changes = [e for e in events(log, "pod-changes") if isinstance(e, PodChanged)]
    assert [tuple(c.name for c in e.containers) for e in changes] == [("app",), ("app", "proxy")]
    assert {e.workload.key for e in changes} == {"trace/shop/Deployment/cart"}
    assert changes[1].containers[0].requests == Amounts(0.5, None)
    gone = [e for e in events(log, "pod-changes") if isinstance(e, PodDeleted)]
    assert len(gone) == 1


def test_oom_kills_come_from_a_column_that_counts_them(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        SMALL[0] + ",memory_limit_bytes,oom_kills",
        "a,60,1,10,64,0",
        "a,120,1,10,64,2",
        "a,180,1,10,64,0",
        "a,240,1,10,64,1",
    )
    kills = events(play(path)[0], "oom-events")
    assert all(isinstance(e, ContainerOOMKilled) for e in kills)
    found = [((e.at - Y2026).total_seconds(), e.container, e.restarts, e.memory_request, e.memory_limit) for e in kills]
    assert found == [(120, "main", 1, 64, 64), (120, "main", 2, 64, 64), (240, "main", 3, 64, 64)]


def test_samples_within_one_step_are_one_scrape_and_a_second_sample_is_not_lost(tmp_path: Path) -> None:
    path = csv(tmp_path, SMALL[0], "a,60,1,1", "a,120,2,2", "a,180,3,3", "b,61,4,4", "b,119,5,5", "b,121,6,6")
    with Trace(path, step=60) as trace:
        found = [(s.at, s.who.tolist(), s.numbers["cores"].tolist()) for s in trace.scrapes()]
    assert found == [(60, [0], [1]), (120, [0, 1], [2, 4]), (120, [1], [5]), (180, [0, 1], [3, 6])]


def test_the_rows_of_one_window_stand_in_order_of_time_and_the_earlier_ones_have_an_age(tmp_path: Path) -> None:
    lines = ["a,60,1,1", "b,119,5,5", "b,120,6,6", "a,120,2,2", "b,61,4,4"]
    with Trace(csv(tmp_path, SMALL[0], *lines), step=60) as trace:
        found = [(s.at, s.numbers["cores"].tolist(), None if s.ages is None else s.ages.tolist()) for s in trace.scrapes()]
    assert found == [(60, [1], None), (120, [2, 4], [0, 59]), (120, [5], [1]), (120, [6], None)]
    log, _ = play(csv(tmp_path, SMALL[0], "a,60,1,1", "a,120,1,1", *lines[1:3], lines[4]))
    scrapes = [e for e in events(log, "pod-metrics") if isinstance(e, MetricsScraped) and "b" in e.pods]
    assert [list(e.ages) for e in scrapes][1:] == [[1], []]


def test_window_maxima_come_from_columns_that_hold_them(tmp_path: Path) -> None:
    path = csv(tmp_path, SMALL[0] + ",cpu_cores_max,memory_max_mib", "a,60,1,100,2.5,3", "a,120,1,100,,4")
    first, second = (e for e in events(play(path)[0], "pod-metrics") if isinstance(e, MetricsScraped))
    assert (list(first.cores_max), list(first.memory_max)) == ([2.5], [3 << 20])
    assert np.isnan(second.cores_max[0])
    (plain,) = (e for e in events(play(csv(tmp_path, *SMALL[:2]))[0], "pod-metrics") if isinstance(e, MetricsScraped))
    assert (len(plain.cores_max), len(plain.memory_max)) == (0, 0)


@pytest.mark.slow
def test_no_cpu_sample_of_a_real_trace_is_lost_to_the_grid(tmp_path: Path) -> None:
    with Trace(trace("google2019-borg", None, tmp_path)) as borg:
        usage = ContainerUsage(UsageSettings(), lambda workload, _pod, container: (workload, container, ""))
        facts = TraceFacts(borg, cluster="c")
        router = FactRouter(borg, Topics(partitions=1), "c")
        for scrape in borg.scrapes():
            for routed in router.metrics(scrape, facts.at(scrape.at)):
                assert isinstance(routed.fact, MetricsScraped)
                usage.scrape(routed.fact, routed.fact.at.timestamp(), offset=0)
        folded = int(usage.aggregates["count"].sum())
    assert folded == borg.rows == 64_738


def test_chunks_of_any_size_give_the_same_scrapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv(tmp_path, SMALL[0], *(f"c{i % 3},{60 * (i // 3 + 1)},{i},{i}" for i in range(30)))

    def found() -> Iterator[tuple[float, list[int], list[float]]]:
        with Trace(path) as trace:
            for s in trace.scrapes():
                yield s.at, s.who.tolist(), s.numbers["cores"].tolist()

    whole = list(found())
    assert len(whole) == 10
    for size in (1, 4, 7):
        monkeypatch.setattr(trace_table, "CHUNK", size)
        assert list(found()) == whole


def test_each_loop_comes_after_the_one_before_with_pods_of_its_own(tmp_path: Path) -> None:
    log, progress = play(csv(tmp_path, *SMALL), Playback(loops=2))
    assert progress.rows == progress.of == 6
    assert [row[0] for row in rows(log)] == [60, 60, 120, 240, 240, 300]  # 60 to 120 and a step on both sides
    uids = [e.pod.uid for e in events(log, "pod-changes") if isinstance(e, PodChanged)]
    assert len(set(uids)) == len(uids) == 4


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    path = csv(tmp_path, *SMALL)
    one, two = play(path)[0], play(path)[0]
    for topic in TOPICS:
        assert records(one, topic.name) == records(two, topic.name)


def test_at_a_pace_it_waits_until_each_scrape_is_due_and_leaves_ticks_to_the_clock(tmp_path: Path) -> None:
    wall = [1_000_000]
    log = empty_log()
    origin = int(Y2026.timestamp()) * 1000

    def sleep(seconds: float) -> None:
        wall[0] += max(round(seconds * 1000), 1)

    playback = Playback(base=TimeBase(origin=origin, anchor=wall[0], speed=60.0))
    with Trace(csv(tmp_path, *SMALL)) as trace:
        player = TracePlayer(
            trace,
            LogContext.of(log, PAPERS, "trace"),
            playback,
            now=lambda: wall[0],
            sleep=sleep,
        )
        waited = [(wall[0] - 1_000_000, progress.rows) for progress in player.play()]
    assert waited[:2] == [(1_000, 0), (1_000, 2)]  # waited for second 60 of the trace, sixty times as fast; then wrote it
    assert (2_000, 3) in waited
    assert waited[-1] == (3_000, 3)
    assert not [r for t in TOPICS for r in records(log, t.name) if event_codec.is_of_a_clock(r)]


def test_at_a_speed_it_begins_now_and_writes_its_own_ticks(tmp_path: Path) -> None:
    wall = [1_000_000]
    log = empty_log()

    def sleep(seconds: float) -> None:
        wall[0] += max(round(seconds * 1000), 1)

    with Trace(csv(tmp_path, *SMALL)) as trace:
        playback = Playback(speed=120.0)
        player = TracePlayer(
            trace,
            LogContext.of(log, PAPERS, "trace"),
            playback,
            now=lambda: wall[0],
            sleep=sleep,
        )
        *_, last = player.play()
    assert wall[0] - 1_000_000 == 1_000  # from second 60 to 180, a hundred and twenty times as fast
    assert last.rows == 3
    ticks = [tick.number for tick in clock_log.ticks_from(log, PAPERS, Counted())]
    assert ticks == [round(Y2026.timestamp() * 1000) + s * 1000 for s in (60, 120, 180)]


@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_a_missing_column_is_named_with_the_file_and_what_would_do(tmp_path: Path, missing: int) -> None:
    columns = SMALL[0].split(",")
    gone = columns.pop(missing)
    path = csv(tmp_path, ",".join(columns), "1,2,3")
    with pytest.raises(BadInput) as caught:
        Trace(path)
    what = ("container", "time", "cores", "memory")[missing]
    assert f"'{path}' has no column for {what}" in str(caught.value)
    assert f"'{gone}'" in str(caught.value)


def test_what_is_no_trace_is_refused_with_its_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not parquet at all")
    words = csv(tmp_path, SMALL[0], "a,60,much,1")
    nothing = tmp_path / "empty.csv"
    nothing.write_text(SMALL[0] + "\n")
    cases = [
        (tmp_path / "nowhere.csv", "there is no trace at"),
        (tmp_path, "is no trace|there is no trace at"),
        (broken, "reading the trace"),
        (words, "reading the trace"),
        (nothing, "no rows with a container and a time"),
    ]
    for path, sentence in cases:
        with pytest.raises(BadInput, match=sentence):
            Trace(path)
    other = tmp_path / "usage.txt"
    other.write_text("")
    with pytest.raises(BadInput, match="is no trace: a name in"):
        Trace(other)


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    source = csv(tmp_path, *SMALL)
    target = tmp_path / "it's.parquet"
    name = str(target).replace("'", "''")
    duckdb.sql(f"copy (select * from read_csv('{source}')) to '{name}' (format parquet)")  # noqa: S608  # our own file
    assert rows(play(target)[0]) == rows(play(source)[0])


@pytest.mark.parametrize(("chunk", "in_group"), [(trace_table.CHUNK, 10**6), (7, 10**6), (7, 10)])
def test_a_file_in_order_of_time_is_read_as_it_stands_and_gives_what_a_sorted_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, in_group: int
) -> None:
    monkeypatch.setattr(trace_table, "CHUNK", chunk)
    monkeypatch.setattr(trace_table, "_MOST_IN_GROUP", in_group)
    paths = tmp_path / "in-order.parquet", tmp_path / "shuffled.parquet"
    made = (  # in each minute some containers, in any order; some twice, some without memory or a name
        "select m, r, 60 * (m + 1) - hash(r) % 5 - r % 10 * 5 as timestamp_s, "
        "if(r % 11 > 0, printf('c%d', hash(r) % 7), null) as container_id, "
        "r / 100.0 as cpu_cores, if(r % 5 = 0, null, r) as memory_bytes, 1 + m // 3 as cpu_request_cores "
        "from range(9) as minutes(m), range(m * 10, m * 10 + 10) as rows(r)"
    )
    for path, order in zip(paths, ("m, hash(r * 3)", "hash(r * 5)"), strict=True):
        duckdb.execute(f"copy (select * exclude (m, r) from ({made}) order by {order}) to '{path}'")  # noqa: S608  # our own words
    with Trace(paths[0], step=60.0) as one, Trace(paths[1], step=60.0) as two:
        assert ("sorted" in one._rows) is (in_group == 10)
        assert "sorted" in two._rows
        assert (one.rows, one.first, one.last, one.names) == (two.rows, two.first, two.last, two.names)
        found, expected = list(one.scrapes()), list(two.scrapes())
    assert len(found) == len(expected) > 9
    for a, b in zip(found, expected, strict=True):
        assert a.at == b.at
        np.testing.assert_array_equal(a.who, b.who)
        np.testing.assert_array_equal(np.zeros(0) if a.ages is None else a.ages, np.zeros(0) if b.ages is None else b.ages)
        assert a.numbers.keys() == b.numbers.keys() == {"cores", "memory", "cpu_request"}
        for name in a.numbers:
            np.testing.assert_array_equal(a.numbers[name], b.numbers[name])


def test_a_trace_must_be_played_once_at_least() -> None:
    with pytest.raises(BadInput, match="played 0 times"):
        Playback(loops=0)
    with pytest.raises(BadInput, match="at speed -1"):
        Playback(speed=-1)


SHARED = Path(os.environ.get("ULLAGE_SHARED", Path(__file__).parents[4] / "shared")) / "traces"


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here; ULLAGE_SHARED says where they are")
def test_every_row_of_a_real_trace_is_in_the_log_once() -> None:
    file = SHARED / "google2019-borg" / "usage.parquet"
    log, progress = play(file.parent)
    scrapes = [e for e in events(log, "pod-metrics") if isinstance(e, MetricsScraped)]
    sums = f"select count(*), sum(cpu_cores::double), sum(memory_bytes) from '{file}'"  # noqa: S608  # our own file
    ((count, cores, memory),) = duckdb.connect().execute(sums).fetchall()
    assert progress.rows == sum(len(e.pods) for e in scrapes) == count == 64_738
    assert sum(e.cores.sum() for e in scrapes) == pytest.approx(cores)
    assert sum(int(e.memory.sum()) for e in scrapes) == memory
    assert len({e.pod.uid for e in events(log, "pod-changes") if isinstance(e, PodDeleted)}) == 24
    assert {workload for e in scrapes for workload in e.workloads} == {
        "trace/trace/Deployment/113812204462",
        "trace/trace/Deployment/382417448240",
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here; ULLAGE_SHARED says where they are")
def test_requests_and_limits_of_a_real_trace_are_found() -> None:
    with Trace(SHARED / "ibm-dl-pods") as trace:
        assert (trace.rows, len(trace.names), trace.is_unix) == (2_490, 5, True)
        numbers = next(trace.scrapes()).numbers
    assert numbers["cpu_request"].tolist() == [4.0]
    assert numbers["memory_limit"].tolist() == [5_000 * 2.0**20]


@pytest.mark.parametrize("in_order", [True, False])
def test_rows_without_a_name_or_a_time_are_passed_over_and_so_are_times_that_are_no_number(
    tmp_path: Path, *, in_order: bool
) -> None:
    good = [(60.0 * i, name) for i in range(1, 4) for name in ("a", "b")]
    bad = [(None, "a"), (math.nan, "b"), (math.inf, "a"), (-math.inf, "b"), (120.0, None), (None, None)]
    whole, holed = tmp_path / "whole.parquet", tmp_path / "holed.parquet"
    for path, rows_of in ((whole, good), (holed, [*good[:3], *bad, *good[3:]] if in_order else [*bad, *reversed(good)])):
        values = ", ".join(
            f"({'null' if t is None else repr(str(t))}::double, {'null' if n is None else repr(n)})" for t, n in rows_of
        )
        columns = "t as timestamp_s, n as container_id, 0.5 as cpu_cores, 1e8 as memory_bytes"
        duckdb.execute(f"copy (select {columns} from (values {values}) as v(t, n)) to '{path}'")  # noqa: S608  # our own words
    assert rows(play(holed)[0]) == rows(play(whole)[0])
    assert len(rows(play(holed)[0])) == len(good)
