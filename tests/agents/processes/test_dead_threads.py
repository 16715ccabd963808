"""A thread that ends by an exception ends its process, and the process says why."""

import subprocess
import sys

SCRIPT = """
import threading, time
from prometheus_client import CollectorRegistry
from agents.processes.process_telemetry import serving
from agents.processes.signals import until_stopped
from agents.telemetry import HealthServer

def dying():
    raise TypeError("no number")

with until_stopped(), serving("consumer", HealthServer(CollectorRegistry()), settings={}):
    threading.Thread(target=dying, name="lease keeper").start()
    time.sleep(60.0)
"""


def test_a_thread_that_dies_ends_its_process_with_a_traceback_and_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    assert '"a fault of our own"' in done.stderr
    assert "Traceback" in done.stderr
    assert "the thread 'lease keeper' ended by a fault of Ullage's own while running as a thread: TypeError" in done.stderr
