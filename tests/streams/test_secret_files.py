"""Files with a secret: links are followed, and what is no secret ends in one sentence, without waiting or filling the memory."""

import os
from pathlib import Path

import pytest

from streams import secret_files
from streams.errors import BadInput


def test_a_link_to_a_secret_is_followed_as_in_a_mounted_volume(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("token\n")
    (tmp_path / "token").symlink_to("data")
    assert secret_files.read(tmp_path / "token", "the token") == "token"


def test_a_pipe_a_folder_and_a_link_to_nothing_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to("nowhere")
    for path, why in ((tmp_path / "pipe", "it is no file"), (tmp_path, "it is no file"), (tmp_path / "gone", "No such file")):
        with pytest.raises(BadInput, match=f"^the token cannot be read: {why}"):
            secret_files.read(path, "the token")


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match="the token has more than 65536 bytes"):
        secret_files.read(tmp_path / "large", "the token")


def test_what_is_no_text_is_said_without_a_word_of_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"secret\xff")
    with pytest.raises(BadInput) as caught:
        secret_files.read(tmp_path / "token", "the token")
    assert str(caught.value) == "the token cannot be read: it is no text in UTF-8"
    assert "secret" not in str(caught.value)
