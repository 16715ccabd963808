"""The most memory that a program of its own needs, whatever the process of the tests holds."""

import subprocess
import sys

_TELL = """
import re, sys
from pathlib import Path

try:
    read(Path(sys.argv[1]))
    refusal = "nothing"
except Exception as error:
    refusal = type(error).__name__
print(refusal, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
# not getrusage(): its ru_maxrss begins at what the process held that started this one, here all that earlier tests left


def refusal_and_megabytes(reader: str, path: object) -> tuple[str, int]:
    """What refuses a file, and the most memory held until then. `reader` is Python that names a function `read` of a path."""
    command = [sys.executable, "-c", reader + _TELL, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    name, kilobytes = told.stdout.split()
    return name, int(kilobytes) // 1024
