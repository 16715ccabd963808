"""A thread that ends by an exception ends its process, and the process says why."""

import subprocess
import sys

SCRIPT = """
import sys, threading, time
from prometheus_client import CollectorRegistry
from agents.processes.process_telemetry import serving
from agents.processes.signals import until_stopped
from agents.telemetry import HealthServer
from streams.errors import BadInput

def dying():
    raise {error}

try:
    with until_stopped(), serving("consumer", HealthServer(CollectorRegistry()), settings={{}}):
        threading.Thread(target=dying, name="lease keeper").start()
        time.sleep(60.0)
except BadInput as error:
    sys.exit(str(error))
"""


def test_a_thread_that_dies_ends_its_process_with_a_traceback_and_an_error() -> None:
    done = _run("TypeError('no number')")
    assert done.returncode == 1
    assert '"a fault of our own"' in done.stderr
    assert "Traceback" in done.stderr
    assert "the thread 'lease keeper' ended by a fault of Ullage's own while running as a thread: TypeError" in done.stderr


def test_what_a_thread_raises_on_purpose_ends_the_process_with_its_own_sentence() -> None:
    done = _run("BadInput('nothing can be served on 127.0.0.1:443: Address already in use')")
    assert done.stderr.endswith("\nnothing can be served on 127.0.0.1:443: Address already in use\n")
    assert '"code":2' in done.stderr
    assert "fault" not in done.stderr
    assert "Traceback" not in done.stderr


def _run(error: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(error=error)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
