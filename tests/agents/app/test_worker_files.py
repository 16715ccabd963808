"""What a worker leaves in the file system: nothing."""

import asyncio
from pathlib import Path

import pytest

from agents.app import worker
from agents.app.worker_plan import from_settings
from agents.settings.all_settings import Settings


def test_a_worker_makes_no_folder_that_another_instance_or_user_could_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def start() -> None:
        app = worker.build(from_settings(Settings()))

        async def nothing() -> None:
            """The log is not asked."""

        app.before_start = nothing
        await app.on_first_start()

    asyncio.run(start())
    assert list(tmp_path.iterdir()) == []
