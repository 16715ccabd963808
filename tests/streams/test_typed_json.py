"""Types are read for the first time by several threads at once, which ends a process that asks msgspec itself."""

import subprocess
import sys

READS = """
import sys, threading, types
import msgspec
from streams import typed_json

TYPES = '''
from __future__ import annotations
import msgspec
class Inner(msgspec.Struct):
    x: int = 0
    y: int | None = None
    z: float | str = 0.0
class Middle(msgspec.Struct):
    n: Inner
class Outer(msgspec.Struct):
    a: Inner
    b: Inner
    c: Middle
'''
DATA = b'{"a":{"x":1,"y":2,"z":3},"b":{"x":1,"y":2,"z":3},"c":{"n":{"x":4,"y":5,"z":6}}}'
sys.setswitchinterval(1e-6)
read = 0

def first_read(start, kind):
    global read
    start.wait()
    assert typed_json.decode(DATA, kind).c.n.x == 4
    read += 1

for _ in range(100):
    sys.modules["made"] = made = types.ModuleType("made")
    exec(TYPES, made.__dict__)
    start = threading.Barrier(6)
    threads = [threading.Thread(target=first_read, args=(start, made.Outer)) for _ in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(read)
"""


def test_threads_that_read_a_type_for_the_first_time_at_once_all_read_it() -> None:
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "600"), done.stderr
