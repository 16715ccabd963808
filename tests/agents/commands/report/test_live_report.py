"""The live page: who may read it, and that a browser shows the log as it grows, in both colour schemes, without an error."""

import asyncio
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import aiohttp
import pytest

from agents import cli
from agents.backtest import price_list
from agents.commands.report import live_report, report_data
from agents.settings import loading, log_factory
from schemas.units import Seconds
from streams.errors import BadInput
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.operator_log import NewestTick, OperatorLog
from streams.serving.connection_limits import ConnectionLimits
from tests.support import demo_hour_log
from tests.support.commands import ROOT
from tests.support.headless_browser import CHROMIUM, HeadlessBrowser

TOKEN = "a-token-of-twenty-chars"  # noqa: S105  # of a test


@contextmanager
def served(log: Path, *words: str) -> Iterator[str]:
    """The address that a process says it serves at."""
    command = [sys.executable, "-m", "agents", "report", "--live", "--log", str(log), "--every", "0.3", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=log.parent, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline().strip()
        assert line.startswith("http://"), line
        try:
            yield line
        finally:
            process.terminate()
            process.wait()


def status(url: str, method: str = "GET", **headers: str) -> int:
    """What the page answers."""
    at = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=60)
    connection.request(method, f"{at.path}?{at.query}", headers=headers)
    with connection.getresponse() as answer:
        return answer.status


def test_beyond_this_machine_a_token_is_needed() -> None:
    for listen in ("0.0.0.0:0", "10.0.0.1:80", ":8080", "[::]:0"):
        with pytest.raises(BadInput, match="give --token-file with a token of 16 characters or more"):
            live_report.address_of(listen, "short")
        assert live_report.address_of(listen, TOKEN).token == TOKEN
    for listen in ("127.0.0.1:0", "localhost:80", "[::1]:0"):
        assert live_report.address_of(listen, "").is_loopback


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536"])
def test_what_is_no_address_is_named(listen: str) -> None:
    with pytest.raises(BadInput, match=f"--listen '{listen}' is no address"):
        live_report.address_of(listen, "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give a file to write, or --live to serve the page"),
        (("report.html", "--live"), "give a file to write, or --live to serve the page, not both"),
        (("--live", "--every", "0"), "--every 0 is no period"),
        (("--live", "--token-file", "nowhere"), "--token-file 'nowhere' cannot be read"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exits_with_2(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["report", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ullage: {sentence}")


@pytest.mark.slow
def test_the_page_asks_for_its_token_and_for_nothing_but_reading(tmp_path: Path) -> None:
    log = demo_hour_log.keep(tmp_path, hours=0.2)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with served(log, "--token-file", "token") as url:
        base = url.partition("?")[0]
        assert url == f"{base}?token=..."
        assert [status(base), status(f"{base}?token=other"), status(f"{base}events")] == [401, 401, 401]
        assert [status(f"{base}?token={TOKEN}"), status(base, Authorization=f"Bearer {TOKEN}")] == [200, 200]
    with served(log) as base:
        assert [status(base), status(base, Host="evil.example")] == [200, 403]
        assert status(base, "POST") == status(f"{base}why", "POST") == 405
        assert [status(f"{base}why?asked={asked}") for asked in ("", "x" * 501, "nothing-of-that-name")] == [400, 400, 404]


@pytest.mark.slow
def test_what_becomes_silent_is_shown_though_no_tick_comes(tmp_path: Path) -> None:
    log = demo_hour_log.keep(tmp_path, hours=0.2)
    with served(log) as url:

        def letters() -> str:
            with urllib.request.urlopen(url) as page:  # noqa: S310  # of this machine
                return str(re.search(r"<td>dead letters</td>.*?</tr>", page.read().decode()))

        assert "none" in letters()
        with FileLog(log) as file:
            file.append([NewRecord("ullage.dead-letters.v1", 0, b"x", b"{}", ())])
        until = time.monotonic() + 60
        while "none" in letters():
            assert time.monotonic() < until, "the page still says that every record could be read"
            time.sleep(0.2)


def test_a_page_is_kept_up_to_date_for_longer_than_a_request_may_take(tmp_path: Path) -> None:
    log = demo_hour_log.keep(tmp_path, hours=0.2)
    settings = loading.load(flags={"log.kind": "file", "log.path": str(log), "cluster.name": "demo"}).settings
    with log_factory.log_to_read(settings) as (opened, fitted):
        context = LogContext.of(opened, log_factory.topics(fitted), "demo")
        now = datetime(2026, 1, 5, 0, 12, tzinfo=UTC)
        report = report_data.collect(context, now - timedelta(minutes=11), now, top=5, heartbeat=settings.vertical.heartbeat)
        data = live_report.LiveData(report, live_report.collect(context, settings, NewestTick(now, -1)))
    said: asyncio.Queue[str] = asyncio.Queue()
    limits = ConnectionLimits(head=Seconds(0.3), body=Seconds(0.3), idle=Seconds(0.3))
    address = live_report.address_of("127.0.0.1:0", "")
    page = live_report.LiveReport(lambda: data, str, price_list.read(None), address, Seconds(0.2), said.put_nowait, limits)

    async def followed() -> None:
        serving = asyncio.create_task(page.serve())
        url = await said.get()
        async with aiohttp.ClientSession() as session, session.get(f"{url}events") as stream:
            versions = 0
            async for line in stream.content:
                versions += line.startswith(b"id: ")
                if versions == 10:  # two seconds, of which a connection without an answer has a third of one
                    break
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        assert versions == 10

    asyncio.run(followed())


def test_the_page_is_of_one_moment_though_the_log_moves_on_while_it_is_read(tmp_path: Path) -> None:
    log = demo_hour_log.keep(tmp_path, hours=0.2)
    settings = loading.load(flags={"log.kind": "file", "log.path": str(log), "cluster.name": "demo"}).settings
    with log_factory.log_to_read(settings) as (opened, fitted):
        context = LogContext.of(opened, log_factory.topics(fitted), "demo")
        newest = OperatorLog(context).newest_tick()
        assert newest is not None
        begun = replace(newest, at=newest.at - timedelta(minutes=2))
        console = live_report.collect(context, settings, begun)
    [clock] = [row.says for row in console.health if row.kind == "clock"]
    assert f"newest tick {console.updated:%Y-%m-%d %H:%M:%S} UTC" in clock
    assert console.updated == begun.at


SHOWN = "[...document.querySelectorAll('#news tbody tr')].filter(row => !row.hidden)"


async def used_as_a_console(browser: HeadlessBrowser) -> None:
    """Search, filter, sort, and from a row and from a mark to the explanation that `ullage why` prints."""
    assert await browser.asks("document.getElementById('updated').textContent") == "2026-01-05 00:48:00"
    assert "apply" in await browser.asks("document.querySelector('#console .tile b').textContent")
    health = await browser.asks("[...document.querySelectorAll('#health td:first-child')].map(cell => cell.textContent)")
    assert {"clock", "cluster", "source", "stage"} <= set(health)
    kinds = await browser.asks(f"[...new Set({SHOWN}.map(row => row.cells[1].textContent))]")
    assert {"decision", "outcome"} <= set(kinds)
    await browser.asks("kind.value = 'outcome', kind.dispatchEvent(new Event('change'))")
    assert await browser.asks(f"[...new Set({SHOWN}.map(row => row.cells[1].textContent))]") == ["outcome"]
    await browser.asks("search.value = 'no such thing', search.dispatchEvent(new Event('input'))")
    assert await browser.asks(f"{SHOWN}.length") == 0
    await browser.asks("search.value = kind.value = '', arrange()")
    for up in (True, False):
        await browser.asks("document.querySelector('#news th').click()")
        times = await browser.asks(f"{SHOWN}.map(row => row.cells[0].textContent)")
        assert times == sorted(times, reverse=not up)
        assert len(times) > 2
    place = await browser.asks(f"{SHOWN}[0].dataset.why")
    await browser.asks(f"{SHOWN}[0].click()")
    await browser.until(
        f"dialog.open && dialog.querySelector('b').textContent === '{place}' && said.textContent.includes('{place}')"
    )
    await browser.asks("dialog.close()")
    await browser.asks("document.querySelector('#workloads-table tbody tr td:nth-child(2)').click()")
    await browser.until("dialog.open && said.textContent.includes('requests recommended')")
    await browser.asks("dialog.close()")
    await clicked_through(browser)
    assert await browser.asks("document.querySelectorAll('form:not([method=dialog])').length") == 0


async def clicked_through(browser: HeadlessBrowser) -> None:
    """From the overview to a namespace and a workload, by clicks and by keys, to the explanation of an act and of a mark."""
    await browser.asks("document.querySelector('.page.shown a[href=\"#/payments\"]').click()")
    await browser.until("document.querySelector('.page.shown h1').textContent === 'Namespace payments'")
    await browser.asks("document.querySelector('.page.shown a[href$=ledger]').click()")
    await browser.until("document.querySelector('.page.shown h1').textContent === 'payments/Deployment/ledger'")
    assert await browser.asks("[...document.querySelectorAll('.page')].filter(page => page.checkVisibility()).length") == 1
    assert await browser.asks("document.querySelectorAll('.page.shown svg path.s').length") > 4
    for asked in (".chart g[data-why]", "table[id^=acts] tr[data-why]"):
        await browser.asks(f"document.querySelector('.page.shown {asked}').focus()")
        await browser.key("Enter")
        about = await browser.asks("document.activeElement.closest('dialog') ? dialog.querySelector('b').textContent : ''")
        assert about == await browser.asks(f"document.querySelector('.page.shown {asked}').dataset.why")
        explained = "said.textContent.includes('[ullage.') || (!live && said.textContent.includes(`: ullage why '${asked}'`))"
        await browser.until(f"(asked => dialog.open && ({explained}))({json.dumps(about)})")
        hanging = "said.children.length && [...said.children].every(line => parseFloat(line.style.textIndent) < 0)"
        assert await browser.asks(hanging), "a line that goes on below leaves its place in the tree"
        await browser.key("Escape")
        await browser.until("!dialog.open")
    times = "[...document.querySelectorAll('.page.shown table[id^=acts] td:first-child')].map(cell => cell.textContent)"
    await browser.asks("document.querySelector('.page.shown table[id^=acts] th').focus()")
    await browser.key("Enter")
    assert await browser.asks(times) == sorted(await browser.asks(times))
    await browser.asks("document.querySelector('.page.shown button.copy').click()")
    assert "cpu:" in await browser.asks("getSelection().toString()")
    await browser.asks("document.querySelector('nav a[href=\"#/nodes\"]').click()")
    await browser.until("document.querySelector('.page.shown h1').textContent === 'Nodes'")
    await browser.asks("document.querySelector('nav a[href=\"#workloads\"]').click()")
    await browser.until("document.querySelector('.page.shown').dataset.page === '' && scrollY > 0")
    covered = "document.querySelector('nav').getBoundingClientRect().bottom > workloads.getBoundingClientRect().top"
    assert not await browser.asks(covered), "the row of links stands on what it leads to"


async def pictured(browser: HeadlessBrowser, folder: Path, name: str) -> None:
    """At three widths and in both schemes nothing sticks out, and no screen but a telephone's cuts a column."""
    for width, dark in product((1280, 800, 420), (False, True)):
        picture = await browser.looks(width, dark=dark)
        assert picture.startswith(b"\x89PNG")
        (folder / f"{name}-{width}-{'dark' if dark else 'light'}.png").write_bytes(picture)
        assert await browser.asks("document.documentElement.scrollWidth <= innerWidth"), (name, width)
        cut = "[...document.querySelectorAll('.page.shown .wide')].filter(part => part.scrollWidth > part.clientWidth).length"
        assert width < 800 or await browser.asks(cut) == 0, f"a cut column on {name}"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.timeout(300)
def test_a_page_in_a_file_can_be_clicked_through_without_a_network(tmp_path: Path) -> None:
    log, file = demo_hour_log.keep(tmp_path, hours=0.5), tmp_path / "report.html"
    assert cli.run(["report", str(file), "--log", str(log)]) == 0

    async def looked() -> None:
        async with HeadlessBrowser(tmp_path / "profile") as browser:
            await browser.call("Page.navigate", url=file.as_uri())
            await browser.until("document.readyState === 'complete'")
            await clicked_through(browser)
            for name in ("", "/nodes", "/payments", "/payments/Deployment/ledger", "/shop/Deployment/orders"):
                await browser.asks(f"location.hash = '{name}'")
                await browser.until(f"document.querySelector('.page.shown').dataset.page === '{name}'")
                await pictured(browser, tmp_path, name.replace("/", "-") or "overview")
            assert browser.console == []

    asyncio.run(looked())


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.timeout(300)
def test_a_browser_follows_the_log_as_it_grows(tmp_path: Path) -> None:
    for name, hours in (("short", 0.4), ("long", 0.8)):
        (tmp_path / name).mkdir()
        demo_hour_log.keep(tmp_path / name, hours=hours)
    log = tmp_path / "log.jsonl"
    shutil.copy(tmp_path / "short" / "log.jsonl", log)

    async def looked(url: str) -> None:
        async with HeadlessBrowser(tmp_path / "profile") as browser:
            await browser.call("Page.navigate", url=url)
            await browser.until("document.readyState === 'complete' && document.body.dataset.version === '0'")
            assert "2026-01-05 00:24 UTC" in await browser.asks("document.querySelector('.page > .sub').textContent")
            await browser.asks("document.querySelector('nav a[href=\"#workloads\"]').click()")
            await browser.until("scrollY > 0 && location.hash === '#workloads'")
            (tmp_path / "long" / "log.jsonl").replace(log)
            await browser.until("document.querySelector('.page > .sub').textContent.includes('2026-01-05 00:48 UTC')")
            assert await browser.asks("scrollY") > 0
            await used_as_a_console(browser)
            await pictured(browser, tmp_path, "live")
            assert browser.console == []

    with served(log) as url:
        asyncio.run(looked(url))
