"""A real browser for tests: Chromium without a window, driven through its DevTools protocol.

Keyboard and mouse are the browser's own events, so that a test does what a person does.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from mcvrp.tasks.support.processes import start_group, stop_group

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 200.0  # for the browser to start, for a page to load, for what `wait_for` waits for
_POLL = 0.05
_QUIET_SECONDS = 0.5  # without a request: the page has all that it wants
_DATA = ("XHR", "Fetch")  # a worker's script, say, is never reported as loaded
_DRAWN = "new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is behind no proxy


class BrowserError(Exception):
    """The browser refused what it was asked, or the page's script failed; says what."""


class Browser:
    """One page of a browser.

    Parameters
    ----------
    socket
        The page's end of the DevTools protocol.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._calls = socket, 0
        self._requests: dict[str, str] = {}  # that are under way, and their addresses
        self._asks("Page.enable")
        self._asks("Network.enable")

    def open(self, address: str, width: int = 1280, height: int = 900) -> None:
        """Load ``address`` in a window of ``width`` by ``height`` pixels and wait until it is complete."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self._asks("Emulation.setDeviceMetricsOverride", **size)
        self._asks("Page.navigate", url="about:blank")
        self._asks("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; a promise is awaited."""
        answer = self._asks(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of ``expression`` as soon as it is true."""
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(BrowserError):  # a page that is being left has no script context
                if value := self.evaluate(expression):
                    return value
            time.sleep(_POLL)
        raise BrowserError(f"not within {_SECONDS:g} s: {expression}")

    def settled(self) -> None:
        """Wait until the page has asked for no data for a while, and has drawn what came."""
        until = time.monotonic() + _SECONDS
        quiet = time.monotonic()
        while time.monotonic() - quiet < _QUIET_SECONDS:
            if time.monotonic() > until:
                raise BrowserError(f"the page still loads after {_SECONDS:g} s: {[*self._requests.values()]}")
            with contextlib.suppress(BrowserError):  # a page that is being left has no script context
                self.evaluate(_DRAWN)  # what happened meanwhile is read here, too
            if self._requests:
                quiet = time.monotonic()
            time.sleep(_POLL)

    def click(self, selector: str) -> None:
        """Click with the mouse into the middle of the first element that ``selector`` finds.

        Waits until the element neither moves nor lies under another.
        """
        place = self.wait_for(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', inline: 'center'}); const was = e.getBoundingClientRect();"
            f"await {_DRAWN}; const r = e.getBoundingClientRect();"
            "const x = r.x + r.width / 2, y = r.y + r.height / 2, hit = document.elementFromPoint(x, y);"
            "return was.x === r.x && was.y === r.y && hit && (e.contains(hit) || hit.contains(e)) && {x, y};"
            "})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._asks("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def press(self, key: str) -> None:
        """Press a key such as "Tab" or "Enter" where the focus is."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        shared = {"key": key, "windowsVirtualKeyCode": code}
        self._asks("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self._asks("Input.dispatchKeyEvent", type="keyUp", **shared)

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(ConnectionClosed):
            self._asks("Browser.close")

    def screenshot(self, file: Path) -> None:
        """Write what the window shows to ``file`` as PNG: for people to look at."""
        file.write_bytes(base64.b64decode(self._asks("Page.captureScreenshot", format="png")["data"]))

    def print_media(self, on: bool) -> None:
        """Show the page as it would be printed, or as on a screen."""
        self._asks("Emulation.setEmulatedMedia", media="print" if on else "")

    def _asks(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:  # events come in between
            answer = json.loads(self._socket.recv(timeout=_SECONDS))
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._notice(answer.get("method"), answer.get("params", {}))

    def _notice(self, event: str | None, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent" and about.get("type") in _DATA:
            self._requests[about["requestId"]] = about["request"]["url"]
        elif event in ("Network.loadingFinished", "Network.loadingFailed"):
            self._requests.pop(about["requestId"], None)
        elif event == "Page.frameStartedLoading":  # what the page before has asked for is forgotten
            self._requests.clear()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A page of Chromium; skips where there is none, fails in CI."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Chromium is not installed (apt: chromium)")
    folder = Path(tempfile.mkdtemp(prefix="mcvrp-browser-"))
    options = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--disable-gpu"]
    options += ["--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    process = start_group(
        [program, *options, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        port = _port(folder / "DevToolsActivePort", process)
        with _DIRECT.open(f"http://127.0.0.1:{port}/json/list", timeout=_SECONDS) as answer:
            pages = [target for target in json.load(answer) if target["type"] == "page"]
        address = pages[0]["webSocketDebuggerUrl"]
        entry = {"open_timeout": _SECONDS, "ping_interval": None}
        with connect(address, max_size=None, proxy=None, **entry) as socket:
            yield (page := Browser(socket))
            page.close()
    finally:
        stop_group(process)
        shutil.rmtree(folder, ignore_errors=True)


def _port(file: Path, process: subprocess.Popen[str]) -> int:
    """Return the port that the browser has taken, as soon as it says so."""
    until = time.monotonic() + _SECONDS
    while not (file.exists() and (text := file.read_text())):
        assert process.poll() is None, f"the browser ended with exit code {process.returncode}"
        assert time.monotonic() < until, f"the browser did not start within {_SECONDS:g} s"
        time.sleep(_POLL)
    return int(text.splitlines()[0])
