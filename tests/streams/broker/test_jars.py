import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.broker import JarsUnavailable, jars
from streams.broker.jars import Jar

CONTENT = {name: f"the jar {name}".encode() for name in ("g:kafka-server:1", "g:other:2", "g:third:3")}


def _jar(coordinates: str) -> Jar:
    data = CONTENT[coordinates]
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, len(data), hashlib.sha256(data).hexdigest())


@pytest.fixture(autouse=True)
def _small_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "locked", lambda: tuple(_jar(name) for name in CONTENT))


class Index:
    """A package index of three jars that remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.content = dict(CONTENT)
        self._one_at_a_time = threading.Lock()

    def fetch(self, coordinates: str, into: Path) -> Path:
        with self._one_at_a_time:
            self.asked.append(coordinates)
        file = into / "some.jar"
        file.write_bytes(self.content[coordinates])
        return file


def _unplugged(coordinates: str, into: Path) -> Path:
    raise OSError(f"Name or service not known\nwhile asking for {coordinates} into {into}")


def _read(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


ALL = {
    "kafka-server-1.jar": b"the jar g:kafka-server:1",
    "other-2.jar": b"the jar g:other:2",
    "third-3.jar": b"the jar g:third:3",
}


def test_all_jars_are_fetched_once_and_a_second_start_needs_no_network(tmp_path: Path) -> None:
    said: list[str] = []
    index = Index()
    folder = jars.ensure(tmp_path, progress=said.append, fetch=index.fetch)
    assert folder == tmp_path / "kafka-1"
    assert _read(folder) == ALL
    assert sorted(index.asked) == sorted(CONTENT)
    assert said == [f"fetching Apache Kafka 1 (3 jars, 0 MB, once) into {folder}"]
    assert jars.ensure(tmp_path, progress=said.append, fetch=_unplugged) == folder
    assert len(said) == 1


@pytest.mark.parametrize("damage", [b"", b"the jar g:other:", b"the jar g:OTHER:2"], ids=["empty", "torn", "altered"])
def test_a_damaged_jar_is_fetched_again_and_no_other(tmp_path: Path, damage: bytes) -> None:
    folder = jars.ensure(tmp_path, fetch=Index().fetch)
    (folder / "other-2.jar").write_bytes(damage)
    index = Index()
    jars.ensure(tmp_path, fetch=index.fetch)
    assert index.asked == ["g:other:2"]
    assert _read(folder) == ALL


def test_a_fetched_jar_that_is_not_the_locked_one_is_refused_and_not_kept(tmp_path: Path) -> None:
    index = Index()
    index.content["g:other:2"] = b"something else"
    with pytest.raises(
        JarsUnavailable, match=r"fetched 'g:other:2', but it is not the file the lock names: sha256 [0-9a-f]{64} inst"
    ):
        jars.ensure(tmp_path, fetch=index.fetch)
    assert not (tmp_path / "kafka-1" / "other-2.jar").exists()


def test_without_a_network_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailable) as caught:
        jars.ensure(tmp_path, fetch=_unplugged)
    said = str(caught.value)
    assert f"Apache Kafka's jars are not in '{tmp_path / 'kafka-1'}' yet" in said
    assert "Name or service not known. The first start needs the network" in said
    assert "use --log memory" in said
    assert "\n" not in said
    assert _read(tmp_path / "kafka-1") == {}


def test_a_fetch_that_dies_half_way_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    def torn(coordinates: str, into: Path) -> Path:
        (into / "half.jar").write_bytes(CONTENT[coordinates][:5])
        raise ConnectionResetError("connection reset by peer")

    with pytest.raises(JarsUnavailable, match="connection reset by peer"):
        jars.ensure(tmp_path, fetch=torn)
    assert _read(tmp_path / "kafka-1") == {}


def test_two_first_starts_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    meet = threading.Barrier(2, timeout=60)

    def slow(name: str) -> Callable[[str, Path], Path]:
        def fetch(coordinates: str, into: Path) -> Path:
            if coordinates == name:
                meet.wait()
            return Index().fetch(coordinates, into)

        return fetch

    starts = [threading.Thread(target=jars.ensure, args=(tmp_path,), kwargs={"fetch": slow("g:third:3")}) for _ in range(2)]
    for start in starts:
        start.start()
    for start in starts:
        start.join(60)
    assert _read(tmp_path / "kafka-1") == ALL


def test_a_cache_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(
        JarsUnavailable, match=r"the cache folder '.*/file/kafka-1' cannot be made \(Not a directory\): set ULLAGE_"
    ):
        jars.ensure(tmp_path / "file", fetch=Index().fetch)


def test_the_class_path_holds_the_locked_jars_only(tmp_path: Path) -> None:
    folder = jars.ensure(tmp_path, fetch=Index().fetch)
    (folder / "stranger.jar").write_bytes(b"x")
    assert jars.classpath(folder, jars.locked()).split(":") == [str(folder / name) for name in ALL]
