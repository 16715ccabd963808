"""The selector polls when it must wait, and while the loop is busy only now and then."""

import asyncio
import selectors
import socket
from collections.abc import Iterator

import pytest

from agents.app import lazy_selector
from agents.app.lazy_selector import NEXT_LOOK, LazySelector


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection; the first has something to read."""
    here, there = socket.socketpair()
    there.send(b"x")
    with here, there:
        yield here, there


def test_a_busy_loop_polls_once_in_a_while(pair: tuple[socket.socket, socket.socket]) -> None:
    time = Time()
    with LazySelector(time) as selector:
        selector.register(pair[0], selectors.EVENT_READ)
        assert len(selector.select(0)) == 1, "the first look"
        time.now += NEXT_LOOK / 2
        assert selector.select(0) == [], "too soon"
        time.now += NEXT_LOOK / 2
        assert len(selector.select(0)) == 1, "time for another"


@pytest.mark.parametrize("timeout", [None, 0.5])
def test_a_loop_that_has_nothing_to_do_always_polls(timeout: float | None, pair: tuple[socket.socket, socket.socket]) -> None:
    time = Time()
    with LazySelector(time) as selector:
        selector.register(pair[0], selectors.EVENT_READ)
        selector.select(0)
        assert len(selector.select(timeout)) == 1
        assert selector.select(0) == [], "a poll that waited counts, too"


def test_callbacks_that_never_end_do_not_keep_a_loop_from_its_sockets() -> None:
    async def answered() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def busy() -> None:
            if not over.is_set():
                loop.call_soon(busy)

        busy()
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"tick")
        came = await asyncio.wait_for(reader.readexactly(4), 10)
        over.set()
        writer.close()
        server.close()
        return came

    loop = lazy_selector.new_event_loop()
    try:
        assert loop.run_until_complete(answered()) == b"tick"
    finally:
        loop.close()
