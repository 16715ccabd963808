"""A log file of any content is refused by a sentence with the file, the place and the bound, before it fills the memory."""

import os
import tracemalloc
from pathlib import Path

import pytest

from streams.errors import BadInput
from streams.log import file_format
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord

TOPIC = b'{"topic":"t","partitions":1,"begin":[0]}\n'


def log_file(folder: Path, *lines: bytes) -> Path:
    path = folder / "log.jsonl"
    path.write_bytes(file_format.first_line() + TOPIC + b"".join(line + b"\n" for line in lines))
    return path


def record(**changed: bytes) -> bytes:
    parts = {"at": b'"t:0:0"', "ms": b"1", "key": b'"k"', "value": b'"v"', "headers": b"[]", **changed}
    return b"{" + b",".join(b'"' + name.encode() + b'":' + part for name, part in parts.items()) + b"}"


def read_all(path: Path) -> None:
    with FileLog(path) as log:
        log.poll({("t", 0): 0})


LINES = {
    "brackets": (record(headers=b"[" + b"{}," * (1 << 20) + b"{}]"), "besides its texts it has more than 65536 bytes"),
    "brackets after an escaped quote": (record(value=b'"\\""', headers=b"[" + b"[]," * (1 << 20) + b"[]]"), "besides its texts"),
    "depth": (record(value=b"[" * 100_000), "cannot be read"),
    "headers": (record(headers=b"[" + b'["a","b"],' * 1000 + b'["a","b"]]'), "it has 1001 headers; 1000 are the most"),
    "a time of many digits": (record(ms=b'"' + b"9" * 400 + b'"'), "its 'ms' is beyond 64 bits"),
    "a time that is infinite": (record(ms=b'"Infinity"'), "cannot be read"),
    "a time of 1e300": (record(ms=b"1e300"), "its 'ms' is beyond 64 bits"),
    "an offset of many digits": (record(at=b'"t:0:' + b"9" * 400 + b'"'), "its 'offset' is beyond 64 bits"),
    "an offset of too many digits": (record(at=b'"t:0:' + b"9" * 5000 + b'"'), "cannot be read"),
    "a negative offset": (record(at=b'"t:0:-5"'), "that partition is already at 0"),
    "a long topic": (record(at=b'"' + b"t" * 1_000_000 + b':0:0"'), "topic has 1000000 characters; 249 are the most"),
    "many partitions": (b'{"topic":"u","partitions":100001,"begin":[' + b"0," * 100_000 + b"0]}", "100000 are the most"),
    "many partitions of two topics": (
        b'{"topic":"u","partitions":60000,"begin":[' + b"0," * 59_999 + b'0]}\n{"topic":"w","partitions":60000,"begin":['
        + b"0," * 59_999 + b"0]}",
        "line 4 .* makes more than 100000 partitions",
    ),
    "no JSON": (b"x" * 1_000_000, "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_line_beyond_a_bound_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    line, why = LINES[name]
    path = log_file(tmp_path, line)
    with pytest.raises(BadInput, match=why) as refused:
        read_all(path)
    assert str(path) in str(refused.value) or "put into" in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = log_file(tmp_path)
    size = path.stat().st_size
    os.truncate(path, 40 << 30)  # takes no place on the disk
    assert path.stat().st_blocks * 512 < 1 << 20
    tracemalloc.start()
    with pytest.raises(BadInput, match=f"line 3 of the log file '{path}' has more than {file_format.MOST_LINE} bytes"):
        read_all(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * file_format.MOST_LINE
    os.truncate(path, size)
    read_all(path)


def test_the_largest_record_that_a_log_takes_is_read_again(tmp_path: Path) -> None:
    path = log_file(tmp_path)
    headers = tuple((f"h{i}", b"\x00\xff") for i in range(1000))
    values = [b"\x01" * ((8 << 20) - 10_000), b"\xff" * ((8 << 20) - 10_000), b'"\\' * ((4 << 20) - 10_000)]
    with FileLog(path) as log:
        log.append([NewRecord("t", 0, b"k", value, headers) for value in values])
    with FileLog(path) as log:
        for offset, value in enumerate(values):
            [kept] = log.poll({("t", 0): offset}, limit=1)
            assert (kept.value, kept.headers) == (value, headers)
