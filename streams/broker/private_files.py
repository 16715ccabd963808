"""Folders and files of the broker that only their owner may read: they show what the cluster runs, and may hold passwords.

A folder that was there before keeps its rights, because it may hold other things, too; what the broker makes in it is private.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from streams.errors import LogUnavailable

UMASK = 0o077  # for Java, so that all that it writes is private
_FOLDER, _FILE = 0o700, 0o600


def make_folder(folder: Path) -> None:
    """Make the data folder, private. Raises LogUnavailable when it cannot be made or written."""
    try:
        folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the broker's data folder '{folder}' cannot be made ({error.strerror}): choose another with broker.data"
        raise LogUnavailable(msg) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        msg = f"the broker's data folder '{folder}' cannot be written: choose another with broker.data, or change its owner"
        raise LogUnavailable(msg)


def close_to_others(folder: Path) -> None:
    """Make the folder if it is missing, and close it to others."""
    with suppress(FileExistsError):  # a file of that name: using it as a folder will raise
        folder.mkdir(mode=_FOLDER, exist_ok=True)
        folder.chmod(_FOLDER)  # files that an earlier version wrote there may be readable


def create(file: Path) -> TextIO:
    """The file, empty and private, open for writing."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), _FILE)
    opened = os.fdopen(descriptor, "w", encoding="utf-8")
    file.chmod(_FILE)  # one that was there keeps its rights when it is opened
    return opened
