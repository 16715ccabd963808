"""An incident file gives back what went in, and names and counts whatever else is in it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import orjson
import pytest

from schemas.names import Place
from streams import clock_log
from streams.clock_rules import ClockRecord, Counted
from streams.codec import event_codec
from streams.codec.headers import cause_headers
from streams.errors import BadInput
from streams.incidents import incident_copy, incident_manifest
from streams.incidents.incident_copy import IncidentLog, Stretch
from streams.incidents.incident_file import IncidentFile
from streams.incidents.incident_manifest import KEY
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support import ticks

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 1_767_225_600_000
SHOP = Topics("shop", 2)
METRICS, POLICIES, CLOCK = SHOP.wire("pod-metrics"), SHOP.wire("policies"), SHOP.wire("clock")


def said(topic: str, partition: int, second: int, value: bytes, *more: tuple[str, bytes]) -> NewRecord:
    at = (START + timedelta(seconds=second)).isoformat().encode()
    return NewRecord(topic, partition, b"prod", value, (("ce_time", at), ("ce_type", b"ullage.x.v1"), *more))


@pytest.fixture
def log() -> MemoryLog:
    """Policies of second 1; metrics and ticks of seconds 10, 20 and 30. The first record of metrics is gone by retention."""
    log = MemoryLog(now=iter(range(START_MS, START_MS + 1_000)).__next__)
    for wire, partitions in ((METRICS, 2), (POLICIES, 2), (CLOCK, 1)):
        log.create(wire, partitions)
    for p in (0, 1):
        log.append([said(POLICIES, p, 1, b'{"policy":1}')])
        log.append([said(METRICS, p, 2, b"gone")])
    for second in (10, 20, 30):
        odd = b"\xff\x00" if second == 20 else b'{"n":%d}' % second
        cites = {p: cause_headers((Place(POLICIES, p, 0),)) for p in (0, 1)}
        log.append([said(METRICS, p, second - 1, odd, *cites[p]) for p in (0, 1)])
        ticks.append(log, SHOP, START_MS + second * 1_000)
    for p in (0, 1):
        log.truncate(METRICS, p, 1)
    return log


@pytest.fixture
def file(log: MemoryLog, tmp_path: Path) -> Path:
    return exported(log, tmp_path / "all.parquet", Stretch((METRICS, POLICIES, CLOCK)))


def exported(log: MemoryLog, path: Path, stretch: Stretch) -> Path:
    incident_copy.to_file(LogContext.of(log, SHOP), path, stretch, "test 1")
    return path


def records(log: MemoryLog | FileLog, *wires: str) -> list[Record]:
    return [record for wire in wires for p in range(log.partitions(wire)) for record in log.poll({(wire, p): 0})]


def rewritten(file: Path, rows: str) -> Path:
    """The same file with rows from another query over `file`, and its old manifest."""
    damaged = file.with_name("damaged.parquet")
    with duckdb.connect() as db:
        [(manifest,)] = db.execute(f"select value from parquet_kv_metadata('{file}')").fetchall()  # noqa: S608  # a test's own
        quoted = bytes(manifest).decode().replace("'", "''")
        read = "create table file as select *, file_row_number as nr from read_parquet('FILE', file_row_number = true)"
        db.execute(read.replace("FILE", str(file)))
        columns = 'topic, partition, "offset", appended_ms, key, key_bytes, value, value_bytes, headers'
        db.execute(f"copy (select {columns} from ({rows})) to '{damaged}' (format parquet, kv_metadata {{'{KEY}': '{quoted}'}})")  # noqa: S608  # a test's own
    return damaged


def faults(file: Path) -> list[str]:
    with IncidentFile(file) as incident:
        return incident.check().sentences()


def test_a_log_comes_back_with_its_places_times_headers_and_bytes(log: MemoryLog, file: Path, tmp_path: Path) -> None:
    assert faults(file) == []
    with IncidentFile(file) as incident, FileLog.open_or_create(tmp_path / "back.jsonl") as back:
        assert incident_copy.to_places(incident, back) == 11
        assert records(back, METRICS, POLICIES, CLOCK) == records(log, METRICS, POLICIES, CLOCK)
        assert [back.begin(METRICS, p) for p in (0, 1)] == [1, 1]
    assert records(IncidentLog(file), METRICS, POLICIES) == records(log, METRICS, POLICIES)


def test_the_manifest_says_places_versions_and_stretch(file: Path) -> None:
    with IncidentFile(file) as incident:
        manifest = incident.manifest
    assert (manifest.prefix, manifest.partitions, manifest.made_by, manifest.records) == ("shop", 2, "test 1", 11)
    assert manifest.events == {"tick": 3, "ullage.x.v1": 8}
    assert [(each.begin, each.end, each.records) for each in manifest.topics[METRICS]] == [(1, 4, 3), (1, 4, 3)]


def test_a_stretch_has_what_was_in_force_before_it_and_is_cut_by_its_ticks(log: MemoryLog, tmp_path: Path) -> None:
    stretch = Stretch((METRICS, POLICIES, CLOCK), START + timedelta(seconds=15), START + timedelta(seconds=25))
    part = IncidentLog(exported(log, tmp_path / "part.parquet", stretch))
    of_zero = [(r.topic, r.offset) for r in records(part, METRICS, POLICIES, CLOCK) if r.partition == 0]
    assert of_zero == [(METRICS, 2), (POLICIES, 0), (CLOCK, 0), (CLOCK, 1)]
    before, within = (ClockRecord.decode(record) for record in records(part, CLOCK))
    assert before is not None
    assert before.full
    assert [before.ends[name, p] for name in ("pod-metrics", "policies") for p in (0, 1)] == [2, 2, 1, 1]
    assert within is not None
    assert [within.ends["pod-metrics", p] for p in (0, 1)] == [3, 3]


DAMAGES: Sequence[tuple[str, str, str]] = (
    (
        "a missing record",
        "select * from file where not (topic = 'METRICS' and partition = 1 and \"offset\" = 3)",
        "METRICS:1: 1 records missing",
    ),
    (
        "a repeated record",
        "select * from file union all select * from file where topic = 'METRICS' and partition = 0 and \"offset\" = 3",
        "METRICS:0: 1 records that came before",
    ),
    (
        "records out of order",
        "select * from file order by topic, case when topic = 'METRICS' then -nr else nr end",
        "METRICS:0: 2 records out of order",
    ),
    (
        "a foreign topic",
        "select * from file union all select * replace ('other' as topic) from file where nr = 0",
        "other:0: 1 records that the manifest does not name",
    ),
    (
        "an offset beyond the end",
        'select * from file union all select * replace (99 as "offset") from file where nr = 0',
        ": 1 records that the manifest does not name",
    ),
    (
        "headers that are none",
        "select * replace ('{' as headers) from file where nr = 0 union all select * from file where nr > 0",
        ": 1 records missing",
    ),
    (
        "another value",
        "select * replace ('{}' as value) from file where nr = 0 union all select * from file where nr > 0",
        ": the content is not what the manifest's hash says",
    ),
)


@pytest.mark.parametrize(("query", "says"), [each[1:] for each in DAMAGES], ids=[each[0] for each in DAMAGES])
def test_damage_is_named_and_counted_and_the_file_refused(file: Path, query: str, says: str) -> None:
    damaged = rewritten(file, query.replace("METRICS", METRICS))
    found = faults(damaged)
    assert any(says.replace("METRICS", METRICS) in sentence for sentence in found), found
    with IncidentFile(damaged) as incident, pytest.raises(BadInput, match=r"is damaged: .*--salvage"):
        incident_copy.checked(incident, salvage=False)
    with pytest.raises(BadInput, match="is damaged"):
        IncidentLog(damaged)


def test_salvage_sorts_drops_repeats_and_leaves_foreign_records_out(log: MemoryLog, file: Path) -> None:
    query = (
        "(select * from file union all select * from file where partition = 0 "
        "union all select * replace ('other' as topic) from file where nr = 0) order by -nr"
    )
    back = MemoryLog()
    with IncidentFile(rewritten(file, query)) as incident:
        assert incident_copy.to_places(incident, back, salvage=True) == 11
    assert records(back, METRICS, POLICIES, CLOCK) == records(log, METRICS, POLICIES, CLOCK)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def foreign(file: Path) -> None:
    with duckdb.connect() as db:
        db.execute(f"copy (select 1 as cpu) to '{file}' (format parquet)")


def newer(file: Path) -> None:
    with duckdb.connect() as db:
        copy = "copy (select * from 'FILE') to 'FILE.2' (format parquet, kv_metadata {'KEY': '{\"version\":2}'})"
        db.execute(copy.replace("FILE", str(file)).replace("KEY", KEY))
    Path(f"{file}.2").rename(file)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("partitions", "two", "'partitions' is 'two', not 1 to 1000"),
        ("partitions", -1, "'partitions' is -1, not 1 to 1000"),
        ("clusters", "prod", "'clusters' is no list"),
        ("made_by", 5, "a text of it is no text"),
        ("events", [], "'events' is no count of events"),
        ("topics", {"a": [{"begin": 5, "end": 1, "records": 0, "sha256": ""}]}, "a partition from 5 to 1 with 0 records"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused_and_says_where(file: Path, name: str, value: object, says: str) -> None:
    with IncidentFile(file) as incident:
        body = orjson.loads(incident_manifest.encode(incident.manifest))
    with pytest.raises(BadInput, match=f"the manifest of 'a.parquet' cannot be read: .*{says}"):
        incident_manifest.decode(orjson.dumps({**body, name: value}), "a.parquet")


def test_a_column_of_another_type_is_refused_and_named(file: Path) -> None:
    with pytest.raises(BadInput, match=r"the column 'offset' of the incident file '.*' is VARCHAR, not BIGINT"):
        IncidentFile(rewritten(file, 'select * replace ("offset" || \'x\' as "offset") from file'))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (cut, "was it cut off"),
        (Path.unlink, "does not exist"),
        (foreign, "but no incident file"),
        (newer, "of version 2"),
    ],
)
def test_a_file_that_is_none_is_refused_with_a_sentence(file: Path, damage: Callable[[Path], None], says: str) -> None:
    damage(file)
    with pytest.raises(BadInput, match=says):
        IncidentFile(file)


def test_where_a_log_gives_other_places_causes_and_ends_move_along(file: Path) -> None:
    there = Topics("incident", 2)
    back = MemoryLog()
    for name in ("pod-metrics", "policies"):
        back.create(there.wire(name), 2)
    back.create(there.wire("clock"), 1)
    back.append([NewRecord(there.wire("policies"), 0, b"k", b"old")])
    back.truncate(there.wire("policies"), 0, 1)
    with IncidentFile(file) as incident:
        assert incident_copy.to_log(incident, LogContext.of(back, there)) == 11
    usage = [record for record in records(back, there.wire("pod-metrics")) if record.key == b"prod"]
    causes = [event_codec.causes(record) for record in usage]
    assert all(event_codec.header(record, "ce_cause") == event_codec.header(record, "cause") for record in usage)
    numbers = [tick.number for tick in clock_log.ticks_from(back, there, Counted())]
    assert numbers == [START_MS + second * 1_000 for second in (10, 20, 30)]
    counted = clock_log.counted_at(back, there, START + timedelta(seconds=20))
    assert [counted.end(name, p) for name in ("pod-metrics", "policies") for p in (0, 1)] == [2, 2, 2, 1]
    assert [str(each[0]) for each in causes] == 3 * ["incident.policies.v1:0:1"] + 3 * ["incident.policies.v1:1:0"]
    with IncidentFile(file) as incident, pytest.raises(BadInput, match="is not empty there"):
        incident_copy.to_log(incident, LogContext.of(back, there))


def test_checkpoints_stay_behind_for_they_name_offsets_of_the_log_that_they_came_from(log: MemoryLog, tmp_path: Path) -> None:
    changelog = "shop-updater-state-changelog"
    log.create(changelog, 2)
    log.append([said(changelog, 0, 1, b"state")])
    whole, there = exported(log, tmp_path / "whole.parquet", Stretch((METRICS, changelog))), Topics("incident", 2)
    log.create(there.wire("pod-metrics"), 2)
    with IncidentFile(whole) as incident:
        assert incident_copy.to_log(incident, LogContext.of(log, there)) == len(records(log, METRICS))
    assert len(records(log, changelog)) == 1


def test_nothing_is_appended_to_an_incident(file: Path) -> None:
    with pytest.raises(BadInput, match="nothing is appended"):
        IncidentLog(file).append([said(METRICS, 0, 1, b"{}")])


def test_whoever_waits_for_a_copy_is_told_how_far_it_is(log: MemoryLog, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    stretch = Stretch((METRICS, POLICIES))
    incident_copy.to_file(
        LogContext.of(log, SHOP), tmp_path / "some.parquet", stretch, "test 1", progress=lambda *about: told.append(about)
    )
    wanted = len(records(log, METRICS, POLICIES))
    assert [count for count, _ in told] == list(range(1, wanted + 1))
    assert {of for _, of in told} == {wanted}
