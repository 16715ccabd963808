"""`ullage source remote-write` as a process on a file log: a fault of its own in each request ends it, and is said aloud."""

import http.client
import json
import subprocess
import sys
import time
from pathlib import Path

from streams.broker.preflight import free_ports
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics

BROKEN = """
import sys
from agents import cli
from streams.sources.usage.received.usage_samples import UsageSamples

def broken(*_):
    raise TypeError("no number")

UsageSamples.take = broken
sys.exit(cli.run(["source", "remote-write", *sys.argv[1:]]))
"""


def status_of(port: int) -> int:
    """What a request of nothing is answered; 0 while nobody listens."""
    to = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        to.request("POST", "/v1/metrics", b"{}", {"Content-Type": "application/json"})
        return to.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        to.close()


def test_requests_that_only_fault_are_said_and_counted_and_end_the_process(tmp_path: Path) -> None:
    path, topics = tmp_path / "log.jsonl", Topics()
    with FileLog.open_or_create(path) as log:
        for topic in TOPICS:
            log.create(topics.wire(topic.name), topics.partitions)
    port, health = free_ports(2)
    told = {"log.kind": "file", "log.path": path, "receiver.host": "127.0.0.1", "receiver.port": port, "metrics.port": health}
    told |= {"usage.interval_seconds": 1}
    flags = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]
    answered: set[int] = set()
    log_lines = tmp_path / "said.txt"  # a pipe that nobody reads would stop the process
    with log_lines.open("w") as said_to, subprocess.Popen([sys.executable, "-c", BROKEN, *flags], stderr=said_to) as process:
        try:
            until = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < until:
                answered.add(status_of(port))
                time.sleep(0.02)
        finally:
            process.kill()
        process.wait()
    said = log_lines.read_text()
    assert 500 in answered, said
    assert process.returncode == 1, said
    faults = [line for line in map(json.loads, filter(lambda text: text.startswith("{"), said.splitlines())) if "where" in line]
    assert len(faults) >= 20
    assert "TypeError: no number" in str(faults[-1])
    assert "faults in a row, so the server ends" in said
