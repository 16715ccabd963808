"""The log in a file is a log; and what a crash, a stranger or a reader by hand finds in it."""

import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import Place
from streams.errors import BadInput, LogUnavailable
from streams.log import file_format
from streams.log.file_log import FileLog
from streams.log.log_port import Log, NewRecord, Record
from tests.support.log_conformance import Conformance, World


class FileWorld(World):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = FileLog.open_or_create(path)
        self.wide, self.narrow = "wide", "narrow"
        self.log.create("wide", 3)
        self.log.create("narrow", 1)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        self.log.truncate(topic, partition, offset)

    def another(self) -> Log:
        return FileLog(self.path)


class TestFileLog(Conformance):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[FileWorld]:
        world = FileWorld(tmp_path / "log.jsonl")
        yield world
        world.log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    with FileLog.open_or_create(path, now=lambda: 1234) as log:
        log.create("t", 1)
        log.append([NewRecord("t", 0, b"tick", b'{"at":5}', (("ce_id", b"x"), ("raw", b"\xff")))])
    return path


def test_the_file_can_be_read_by_hand(path: Path) -> None:
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"format": "ullage.log", "version": 1},
        {"topic": "t", "partitions": 1, "begin": [0]},
        {
            "at": "t:0:0",
            "ms": 1234,
            "key": "tick",
            "value": '{"at":5}',
            "headers": [["ce_id", "x"], ["raw", {"base64": "/w=="}]],
        },
    ]


def test_half_a_line_left_by_a_crash_is_left_out_said_and_cut_off_by_the_next_append(path: Path) -> None:
    whole = path.read_bytes()
    half = b'{"at":"t:0:1","ms":12,"key":"' + b"x" * 471  # 500 bytes: longer than what is appended over it
    path.write_bytes(whole + half)
    with FileLog(path) as log:
        assert log.end("t", 0) == 1
        assert log.torn == f"the log file '{path}' ends in half a line (500 bytes after line 3), which is left out"
        assert log.append([NewRecord("t", 0, b"k", b"v")]) == [Place("t", 0, 1)]
        assert log.torn is None
    assert path.read_bytes().startswith(whole)
    with FileLog(path) as log:
        assert [r.value for r in log.poll({("t", 0): 0})] == [b'{"at":5}', b"v"]


def test_every_cut_of_the_file_gives_the_records_before_it(path: Path, tmp_path: Path) -> None:
    with FileLog(path) as log:
        log.append([NewRecord("t", 0, b"k", b"second"), NewRecord("t", 0, b"k", b"third")])
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    cut = tmp_path / "cut.jsonl"
    for length in range(ends[1], len(whole) + 1):
        cut.write_bytes(whole[:length])
        with FileLog(cut) as log:
            assert log.end("t", 0) == sum(1 for end in ends[2:] if end <= length)
            assert (log.torn is None) == (length in ends)


def test_what_is_not_a_log_file_is_refused_with_its_name(tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.csv"
    stranger.write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match=r"stranger\.csv' is not a log file: its first line is b'a,b"):
        FileLog(stranger)
    stranger.write_text("")
    with pytest.raises(BadInput, match=r"stranger\.csv' is not a log file: it is empty"):
        FileLog(stranger)
    with pytest.raises(BadInput, match=r"nowhere\.jsonl' cannot be opened: No such file"):
        FileLog(tmp_path / "nowhere.jsonl")
    with pytest.raises(BadInput, match="cannot be made"):
        FileLog.open_or_create(tmp_path / "no" / "folder.jsonl")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{}", "neither a topic nor a record"),
        ("[1]", "neither a topic nor a record"),
        ("not json", "line 4"),
        ('{"at":"t","ms":1,"key":null,"value":null,"headers":[]}', "not 't'"),
        ('{"at":"t:0:0","ms":1,"key":null,"value":null,"headers":[]}', "already at 1"),
        ('{"at":"u:0:0","ms":1,"key":null,"value":null,"headers":[]}', "no topic 'u'"),
        ('{"topic":"u","partitions":2,"begin":[0]}', "2 partitions but 1 first offsets"),
        ('{"at":"t:0:1","ms":1,"key":null,"value":null,"headers":[]', "line 4"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(path: Path, line: str, said: str) -> None:
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadInput, match=said):
        FileLog(path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ('"key":{"base64":"*"},"value":null,"headers":[]}', "t:0:1"),
        ('"key":null,"value":"half of}', "t:0:1"),
        ('"value":null,"headers":[]}', "neither a topic nor a record"),
    ],
)
def test_a_record_with_damage_inside_is_named_when_it_is_read_and_hides_no_other(path: Path, damage: str, said: str) -> None:
    whole = path.read_text()
    path.write_text(whole + '{"at":"t:0:1","ms":1,' + damage + "\n" + whole.splitlines()[-1].replace("t:0:0", "t:0:2") + "\n")
    with FileLog(path) as log:
        assert log.end("t", 0) == 3
        assert [record.offset for record in log.poll({("t", 0): 0}, limit=1)] == [0]
        assert [record.offset for record in log.poll({("t", 0): 2})] == [2]
        with pytest.raises(BadInput, match=f"at byte {len(whole)} of the log file .*{said}"):
            log.poll({("t", 0): 1})


def test_a_file_that_may_not_be_written_can_still_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # the tests may run as root, who may write everything
    with FileLog(path) as log:
        assert log.end("t", 0) == 1
        for write in (lambda: log.append([NewRecord("t", 0, b"k", b"v")]), lambda: log.create("u", 1)):
            with pytest.raises(BadInput, match="may only be read: give a copy of it that you may write"):
                write()
        assert log.end("t", 0) == 1
        assert log.topics() == ["t"]


def test_kept_records_keep_their_offsets_times_and_holes_also_after_opening_again(path: Path) -> None:
    records = [Record("u", 1, offset, b"k", b"v", (("h", b"1"),), 7) for offset in (5, 6, 9)]
    with FileLog(path) as log:
        log.create("u", 2)
        log.import_records(records)
    with FileLog(path) as log:
        assert log.topics() == ["t", "u"]
        assert (log.begin("u", 1), log.end("u", 1)) == (5, 10)
        assert list(log.poll({("u", 1): 0})) == records


def test_two_openings_that_append_in_turn_agree_on_the_offsets(path: Path) -> None:
    with FileLog(path) as one, FileLog(path) as two:
        places = [log.append([NewRecord("t", 0, b"k", b"v")])[0].offset for log in (one, two, two, one)]
        assert places == [1, 2, 3, 4]
        assert one.end("t", 0) == two.end("t", 0) == 5


def test_a_full_disk_is_told_and_loses_nothing_that_was_acknowledged(path: Path) -> None:
    with FileLog(path) as log, room_for(path.stat().st_size + 100):
        with pytest.raises(LogUnavailable, match=r"took only a part of \d+ bytes; is the disk full\?"):
            log.append([NewRecord("t", 0, b"k", b"x" * 5000)])
        assert log.end("t", 0) == 1
        with pytest.raises(LogUnavailable):
            log.create("more", 90)
        with pytest.raises(BadInput, match="no topic 'more'"):
            log.partitions("more")
    with FileLog(path) as log:
        log.append([NewRecord("t", 0, b"k", b"x" * 5000)])
    with FileLog(path) as log:
        assert [len(r.value or b"") for r in log.poll({("t", 0): 0})] == [8, 5000]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes: the nearest thing to a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_batch_that_cannot_be_kept_whole_leaves_the_file_as_it_was(path: Path) -> None:
    whole = path.read_bytes()
    with FileLog(path) as log, pytest.raises(BadInput, match=r"t:0:1 cannot be put .* already at 2"):
        log.import_records([Record("t", 0, 1, b"k", b"v"), Record("t", 0, 1, b"k", b"v")])
    assert path.read_bytes() == whole


def test_openings_that_append_at_once_lose_nothing(path: Path) -> None:
    def write(name: str) -> None:
        with FileLog(path) as log:
            for n in range(50):
                log.append([NewRecord("t", 0, name.encode(), str(n).encode())])

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with FileLog(path) as log:
        found = log.poll({("t", 0): 1})
    assert [r.offset for r in found] == list(range(1, 151))
    for name in (b"a", b"b", b"c"):
        assert [r.value for r in found if r.key == name] == [str(n).encode() for n in range(50)]


def test_a_poll_of_big_records_stops_before_they_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.log.file_log.POLL_BYTES", 1000)
    with FileLog(path) as log:
        log.append([NewRecord("t", 0, b"k", b"x" * 400) for _ in range(6)])
        assert [r.offset for r in log.poll({("t", 0): 1})] == [1, 2]
        log.append([NewRecord("t", 0, b"k", b"x" * 4000)])
        assert [r.offset for r in log.poll({("t", 0): 7})] == [7]


_bytes = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)


@given(
    key=_bytes,
    value=_bytes,
    headers=st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.binary(max_size=20))),
    offset=st.integers(0, 1 << 60),
)
def test_any_record_comes_back_from_its_line(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]], offset: int
) -> None:
    record = Record("ullage.pod-metrics.v1", 3, offset, key, value, tuple(headers), 17)
    line = file_format.encode_record(record)
    assert line.count(b"\n") == 1
    assert file_format.decode(line) == record
