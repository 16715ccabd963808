"""A folder such as a mounted Secret: what is in it is used, and what is not in it is not missed."""

from pathlib import Path

import pytest

from agents.settings import log_factory
from agents.settings.all_settings import LogSettings, SecuritySettings, Settings
from streams.errors import BadInput

FILES = {"ca.crt": "ssl_cafile", "user.crt": "ssl_certfile", "user.key": "ssl_keyfile"}


def used(security: SecuritySettings) -> dict[str, str | None]:
    connection = log_factory.connection(Settings(log=LogSettings(security=security)))
    return {file: getattr(connection, option) for file, option in FILES.items()}


@pytest.mark.parametrize("there", [(), ("ca.crt",), ("user.crt", "user.key"), tuple(FILES)])
def test_the_files_that_a_secret_has_are_used(there: tuple[str, ...], tmp_path: Path) -> None:
    for name in there:
        (tmp_path / name).touch()
    expected = {name: str(tmp_path / name) if name in there else None for name in FILES}
    assert used(SecuritySettings(protocol="SSL", folder=tmp_path)) == expected


def test_a_folder_that_is_not_there_is_not_taken_for_one_without_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"log\.security\.folder '.*absent' is no folder"):
        used(SecuritySettings(protocol="SSL", folder=tmp_path / "absent"))


def test_a_file_that_is_named_comes_before_the_folder_and_is_never_left_out(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").touch()
    assert used(SecuritySettings(protocol="SSL", folder=tmp_path, ca=Path("own.crt")))["ca.crt"] == "own.crt"
