"""The live page in a real browser while the demo plays its day on Kafka: it follows the day, and explains what it shows."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.commands import ROOT
from tests.support.headless_browser import CHROMIUM, HeadlessBrowser

_PATIENCE = 300.0
_ROWS = "[...document.querySelectorAll('#news tbody tr')].filter(row => !row.hidden)"
_UPDATED = "document.getElementById('updated').textContent"
_CLOCK = "[...document.querySelectorAll('#health tr')].find(row => row.cells[0].textContent === 'clock').cells[3].textContent"


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of ours, which is stopped at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "agents", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def broker_of(folder: Path) -> str:
    """The broker of the demo that starts in `folder`, as soon as one of its processes has said it."""
    said, until = folder / ".run/demo/consumers.log", time.monotonic() + _PATIENCE
    while not (said.exists() and said.read_text().count("\n")):
        assert time.monotonic() < until, "the demo starts no consumers"
        time.sleep(0.2)
    return str(json.loads(said.read_text().splitlines()[0])["settings"]["log.brokers"])


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of the page, which is started again where the day has not begun yet."""
    words = ("--brokers", broker_of(folder), "--cluster", "demo", "--every", "0.5")
    until, said = time.monotonic() + _PATIENCE, ""
    while time.monotonic() < until:
        with running(folder, "report", "--live", *words) as page:
            assert page.stderr is not None
            for line in page.stderr:
                said += line
                if line.startswith("http://"):
                    yield line.strip()
                    return
        time.sleep(0.5)
    pytest.fail(f"no page: {said}")


async def watched(url: str, folder: Path) -> None:
    """The page moves on with the day, a row of it leads to its explanation, and nothing fails."""
    async with HeadlessBrowser(folder / "profile") as browser:
        await browser.call("Page.navigate", url=url)
        await browser.until("document.readyState === 'complete' && 'version' in document.body.dataset")
        seen: set[str] = set()
        until = time.monotonic() + _PATIENCE
        while len(seen) < 4:
            assert time.monotonic() < until, f"the page stays at {seen}"
            await asyncio.sleep(0.2)
            updated, clock = await browser.asks(f"[{_UPDATED}, {_CLOCK}]")
            assert updated in clock
            seen.add(updated)
        await browser.until(f"['decision', 'outcome'].every(kind => {_ROWS}.some(row => row.cells[1].textContent === kind))")
        assert "apply" in await browser.asks("document.querySelector('#console .tile b').textContent")
        place = await browser.asks(f"(row => (row.click(), row.dataset.why))({_ROWS}.find(row => row.dataset.why))")
        await browser.until(f"dialog.open && said.textContent.includes('{place}')")
        await browser.asks("dialog.close()")
        for width, dark in ((1280, False), (420, True)):
            picture = await browser.looks(width, dark=dark)
            (folder / f"live-{width}.png").write_bytes(picture)
            assert await browser.asks("document.documentElement.scrollWidth <= innerWidth")
        assert browser.console == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.timeout(1500)
def test_a_browser_follows_the_demo_on_kafka(tmp_path: Path) -> None:
    with running(tmp_path, "demo", "--log", "kafka", "--plain", "--forever", "--seconds", "60") as day:
        with served(tmp_path) as url:
            asyncio.run(watched(url, tmp_path))
        assert day.poll() is None, "the demo ended while the page was looked at"
