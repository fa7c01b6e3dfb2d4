"""Debian's chromium, headless, driven over a pipe in the DevTools protocol."""

import base64
import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0
"""Seconds that an answer may take on a loaded machine."""


def chromium() -> str | None:
    """The path of the browser; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser process; its pages share nothing with the user's own profile."""

    def __init__(self) -> None:
        path = chromium()
        assert path is not None
        self._profile = tempfile.mkdtemp()
        read, self._send = (_high(fd) for fd in os.pipe())
        self._receive, write = (_high(fd) for fd in os.pipe())
        quiet = _high(os.open(os.devnull, os.O_RDWR))
        self._pid = os.posix_spawn(
            path,
            [
                path,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--hide-scrollbars",
                f"--user-data-dir={self._profile}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, quiet, 1),
                (os.POSIX_SPAWN_DUP2, quiet, 2),
                (os.POSIX_SPAWN_DUP2, read, 3),
                (os.POSIX_SPAWN_DUP2, write, 4),
            ],
            setpgroup=0,
        )
        for fd in (read, write, quiet):
            os.close(fd)
        os.set_blocking(self._receive, False)
        self._buffer = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """Ends the browser and every process that it started."""
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        for fd in (self._send, self._receive):
            os.close(fd)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """The result of one command; events that come before it are kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._send, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method: str, session: str) -> None:
        """Returns once the page has told of this event."""
        while not any(
            e.get("method") == method and e.get("sessionId") == session for e in self.events
        ):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            assert time.monotonic() < end, "the browser does not answer"
            try:
                found = os.read(self._receive, 2**16)
            except BlockingIOError:
                time.sleep(0.002)
            else:
                assert found, "the browser has ended"
                self._buffer += found
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


class Tab:
    """A file as the browser shows it at this width, `px`, in this colour scheme."""

    def __init__(
        self,
        browser: Browser,
        path: Path,
        *,
        width: int,
        height: int = 900,
        dark: bool = False,
        script: bool = True,
        media: str = "screen",
    ) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url=path.resolve().as_uri())
        browser.wait_for("Page.loadEventFired", self._session)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command to this page."""
        return self._browser.call(method, self._session, **params)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """One key, down and up."""
        for kind in ("keyDown", "keyUp"):
            down = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **down,
            )

    def move(self, x: float, y: float) -> None:
        """The mouse to a place of the window, px."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def told(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of this name so far."""
        self.run("0")  # events come in order: whatever the page has told is here after an answer
        return [
            e["params"]
            for e in self._browser.events
            if e.get("sessionId") == self._session and e.get("method") == method
        ]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """A PNG of the page, or of the window."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))

    def printed(self, path: Path) -> None:
        """A PDF as the browser prints it, A4."""
        data = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(data["data"]))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


def _high(fd: int) -> int:
    """The same file under a number that no child expects."""
    other = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return other
