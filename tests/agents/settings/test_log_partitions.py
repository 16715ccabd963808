"""A command with another number of partitions than the log has is refused: it would read, or pause, a part of the log alone."""

from pathlib import Path

import pytest

from agents import cli
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path, topics = tmp_path / "log.jsonl", Topics(partitions=4)
    with FileLog.open_or_create(path) as made:
        for topic in TOPICS:
            made.create(topics.wire(topic.name), topics.partitions)
    return path


@pytest.mark.parametrize("partitions", [2, 6])
@pytest.mark.parametrize(
    "words", [("pause", "--reason", "x"), ("mode", "apply"), ("recommendations",), ("status",), ("tap", "control")]
)
def test_a_part_of_a_log_is_neither_read_nor_written(
    words: tuple[str, ...], partitions: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = log.read_bytes()
    told = ("log.kind=file", f"log.path={log}", f"topics.partitions={partitions}")
    assert cli.run([*words, *(word for each in told for word in ("--set", each))]) == 2
    assert "the topics of this log have 4 partitions" in (said := capsys.readouterr().err)
    assert "ULLAGE_TOPICS__PARTITIONS=4" in said
    assert log.read_bytes() == before


def test_the_doctor_says_which_number_to_give(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--set", "log.kind=file", "--set", f"log.path={log}", "--set", "topics.partitions=2"]) == 1
    said = capsys.readouterr().out
    assert f"all {len(TOPICS)} have 4 partitions, and topics.partitions is 2 here" in said
    assert "export ULLAGE_TOPICS__PARTITIONS=4" in said
