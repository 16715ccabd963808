"""Chromium without a window, spoken to over its DevTools protocol; what its console says is kept."""

import asyncio
import base64
import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_PATIENCE = 60.0


@dataclass
class HeadlessBrowser:
    """One page of a browser whose profile lies in `folder`. Used as `async with`."""

    folder: Path
    console: list[str] = field(default_factory=list)
    """Errors and exceptions."""
    _calls: int = 0

    async def __aenter__(self) -> Self:
        assert CHROMIUM is not None
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={self.folder}"]
        quiet = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(CHROMIUM, *flags, "about:blank", stdout=quiet, stderr=quiet)
        told = self.folder / "DevToolsActivePort"
        until = time.monotonic() + _PATIENCE
        while not (told.exists() and told.read_text().count("\n")):
            assert time.monotonic() < until, "Chromium opens no port"
            await asyncio.sleep(0.05)
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{told.read_text().splitlines()[0]}/json") as answer:
            [page] = [each for each in await answer.json() if each["type"] == "page"]
        self._socket = await self._session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=1 << 28)
        for domain in ("Runtime", "Log", "Page"):
            await self.call(f"{domain}.enable")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._session.close()
        self._process.kill()
        await self._process.wait()

    async def call(self, method: str, **params: Any) -> Any:
        """What a method of the protocol answers."""
        self._calls = number = self._calls + 1
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            said = json.loads((await self._socket.receive(_PATIENCE)).data)
            if said.get("id") == number:
                assert "error" not in said, said
                return said["result"]
            self._listen(said)

    def _listen(self, said: Any) -> None:
        about = said.get("params", {})
        bad_call = said["method"] == "Runtime.consoleAPICalled" and about["type"] in {"error", "assert"}
        bad_entry = said["method"] == "Log.entryAdded" and about["entry"]["level"] == "error"
        if bad_call or bad_entry or said["method"] == "Runtime.exceptionThrown":
            self.console.append(json.dumps(about)[:500])

    async def asks(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def key(self, name: str) -> None:
        """Press and release a key such as Enter or Escape."""
        code = {"Enter": 13, "Escape": 27}[name]
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text)

    async def until(self, expression: str) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + _PATIENCE
        while not await self.asks(expression):
            assert time.monotonic() < end, f"never: {expression}"

    async def looks(self, width: int, *, dark: bool) -> bytes:
        """A picture (PNG) of the page at this width and in this colour scheme."""
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.asks("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])
