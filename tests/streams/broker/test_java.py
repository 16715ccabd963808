from pathlib import Path

import pytest

from streams.broker import preflight
from streams.errors import LogUnavailable

JAVA_8 = 'java version "1.8.0_402"\nJava(TM) SE Runtime Environment (build 1.8.0_402-b08)\n'
JAVA_11 = 'openjdk version "11.0.22" 2024-01-16\nOpenJDK Runtime Environment (build 11.0.22+7)\n'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\n'
JAVA_26_EARLY = 'openjdk version "26-ea" 2026-03-17\n'
PICKED_UP = 'Picked up JAVA_TOOL_OPTIONS: -Xss1m\nopenjdk version "21" 2023-09-19\n'


@pytest.mark.parametrize(
    ("answer", "version"), [(JAVA_8, 8), (JAVA_11, 11), (JAVA_17, 17), (JAVA_26_EARLY, 26), (PICKED_UP, 21), ("what?", None)]
)
def test_the_version_is_read_from_what_java_prints(answer: str, version: int | None) -> None:
    assert preflight.java_release(answer) == version


@pytest.mark.parametrize(("answer", "version"), [(JAVA_8, 8), (JAVA_11, 11)])
def test_a_java_that_is_too_old_is_named_with_the_cure(answer: str, version: int) -> None:
    with pytest.raises(LogUnavailable) as caught:
        preflight.check_java(Path("/usr/bin/java"), answer)
    assert str(caught.value) == (
        f"Kafka needs Java 17 or newer and '/usr/bin/java' is Java {version}: "
        "`pip install -e '.[broker]'` brings one, or set JAVA_HOME to a Java 17 or newer"
    )


def test_a_program_that_tells_no_version_is_quoted() -> None:
    with pytest.raises(LogUnavailable, match=r"'/x/java -version' does not tell a version, it says 'segmentation fault'"):
        preflight.check_java(Path("/x/java"), "segmentation fault\n")


def _program(folder: Path, answer: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\nprintf '%s' '{answer}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def _no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_packaged", lambda: None)


@pytest.mark.usefixtures("_no_package")
def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path = _program(tmp_path / "home", JAVA_17), _program(tmp_path / "path", JAVA_17)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert preflight.find_java() == home
    monkeypatch.delenv("JAVA_HOME")
    assert preflight.find_java() == path


@pytest.mark.usefixtures("_no_package")
def test_an_old_java_is_found_out_before_kafka_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path, JAVA_11)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LogUnavailable, match=rf"Kafka needs Java 17 or newer and '{tmp_path}/bin/java' is Java 11"):
        preflight.find_java()


@pytest.mark.usefixtures("_no_package")
def test_no_java_and_a_wrong_java_home_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(LogUnavailable, match=rf"JAVA_HOME is '{tmp_path}/gone', but there is no '{tmp_path}/gone/bin/java' that"):
        preflight.find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LogUnavailable, match="Kafka needs Java 17 or newer and there is none: `pip install"):
        preflight.find_java()
