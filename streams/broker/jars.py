"""Brings Kafka's jars to this machine once, and checks every byte of them at every start.

Each jar is fetched through jgo, which knows where Maven artifacts live and honours the user's own mirrors. A file with another
checksum than the lock's is refused, wherever it came from. It only reads the lock; `streams.broker.update_jar_lock` writes it.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from streams.errors import BadInput, LogUnavailable

LOCK = Path(__file__).with_name("kafka.lock")
_LINE = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+)\s+(\d+)\s+([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar by its Maven coordinates, with the content it must have."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """Its file name, unique within the lock."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        """As Maven writes them: group:artifact:version."""
        return f"{self.group}:{self.artifact}:{self.version}"


def parse(text: str, *, where: str) -> tuple[Jar, ...]:
    """The jars of a lock file. Raises BadInput with the line number for a line that is not a jar, a comment or empty."""
    jars: list[Jar] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not names_a_jar(line):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            msg = f"line {number} of '{where}' is not 'group:artifact:version size sha256': '{line}'"
            raise BadInput(msg)
        group, artifact, version, size, sha256 = match.groups()
        jars.append(Jar(group, artifact, version, int(size), sha256))
    return tuple(jars)


def locked(path: Path = LOCK) -> tuple[Jar, ...]:
    """The jars of the lock that ships with the program."""
    return parse(path.read_text(encoding="utf-8"), where=str(path))


def kafka_version(jars: tuple[Jar, ...]) -> str:
    """The version of Kafka itself."""
    return next(jar.version for jar in jars if jar.artifact == "kafka-server")


def names_a_jar(line: str) -> bool:
    """Neither empty nor a comment."""
    return bool(line.strip()) and not line.startswith("#")


THREADS = 8
Fetch = Callable[[str, Path], Path]
"""(group:artifact:version, an empty folder) to the file fetched into it."""


class JarsUnavailable(LogUnavailable):
    """Kafka's jars are not in the cache and could not be fetched."""


def ensure(cache: Path, *, progress: Callable[[str], None] = lambda _line: None, fetch: Fetch | None = None) -> Path:
    """The folder that holds all jars of the lock; fetches those missing or damaged. Raises JarsUnavailable."""
    jars = locked()
    folder = cache / f"kafka-{kafka_version(jars)}"
    _make(folder)
    with ThreadPoolExecutor(THREADS) as pool:
        good = list(pool.map(lambda jar: is_good(folder / jar.file, jar), jars))
        wanted = [jar for jar, there in zip(jars, good, strict=True) if not there]
        if wanted:
            size = sum(jar.size for jar in wanted) / 1e6
            progress(f"fetching Apache Kafka {kafka_version(jars)} ({len(wanted)} jars, {size:.0f} MB, once) into {folder}")
            _fetch_all(pool, wanted, folder, fetch or from_maven)
    return folder


def classpath(folder: Path, jars: Sequence[Jar]) -> str:
    """The locked jars only; other files in the folder are ignored."""
    return os.pathsep.join(str(folder / jar.file) for jar in jars)


def is_good(file: Path, jar: Jar) -> bool:
    """Whether the file is there and is what the lock says."""
    try:
        return file.stat().st_size == jar.size and _sum(file) == jar.sha256
    except FileNotFoundError:
        return False


def from_maven(coordinates: str, into: Path) -> Path:
    """Fetch one artifact by jgo. Its own errors pass through."""
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ModuleNotFoundError as error:
        msg = "Apache Kafka's jars are fetched by the package 'jgo', which is not installed: pip install -e '.[broker]'"
        raise JarsUnavailable(msg) from error
    group, artifact, version = coordinates.split(":")
    context = MavenContext(repo_cache=into, timeout=20)
    own = GlobalSettings.load().repositories
    context.remote_repos = own | {name: place for name, place in context.remote_repos.items() if name not in own}
    return Path(context.project(group, artifact).at_version(version).artifact().resolve())


def measure(coordinates: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Size and sha256 of each artifact as published now; for making the lock."""
    measured = {}
    for name in coordinates:
        with tempfile.TemporaryDirectory() as folder:
            file = from_maven(name, Path(folder))
            measured[name] = (file.stat().st_size, _sum(file))
    return measured


def _fetch_all(pool: ThreadPoolExecutor, wanted: Sequence[Jar], folder: Path, fetch: Fetch) -> None:
    work = [pool.submit(_fetch_one, jar, folder, fetch) for jar in wanted]
    try:
        for done in work:
            done.result()
    finally:
        for rest in work:
            rest.cancel()


def _fetch_one(jar: Jar, folder: Path, fetch: Fetch) -> None:
    # A folder of its own, and moved when it is good, so that a torn download or a second start at the same time does no harm.
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as own:
        try:
            file = fetch(jar.coordinates, Path(own))
        except (OSError, RuntimeError) as error:
            raise JarsUnavailable(_no_network(jar, folder, error)) from error
        if not is_good(file, jar):
            msg = (
                f"fetched '{jar.coordinates}', but it is not the file the lock names: sha256 {_sum(file)} instead of "
                f"{jar.sha256}; nothing was started. A proxy or mirror in between may have altered it: check ~/.config/jgo.conf"
            )
            raise JarsUnavailable(msg)
        shutil.move(file, folder / jar.file)


def _no_network(jar: Jar, folder: Path, error: Exception) -> str:
    return (
        f"Apache Kafka's jars are not in '{folder}' yet and fetching '{jar.coordinates}' did not work: {_innermost(error)}. "
        "The first start needs the network (or a mirror named in ~/.config/jgo.conf); later ones do not. "
        "Without it, use --log memory, or a Kafka of your own by log.brokers"
    )


def _innermost(error: Exception) -> str:
    """The innermost error of the network."""
    # The HTTP library wraps it several times, and quotes all of it each time.
    deeper = getattr(error, "reason", None) or next(iter(error.args), None)
    if isinstance(deeper, Exception):
        return _innermost(deeper)
    message = str(error).partition("): ")[2] or str(error) or type(error).__name__
    return message.splitlines()[0][:200]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the cache folder '{folder}' cannot be made ({error.strerror}): set ULLAGE_CACHE to a folder you may write"
        raise JarsUnavailable(msg) from error


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
