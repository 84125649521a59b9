"""Chromium without a window, told what to do over two pipes by its DevTools protocol.

`--remote-debugging-pipe` reads commands from descriptor 3 and answers on 4, as JSON that ends in a
NUL byte; so no port is open and no library is needed. Everything that a page asks for or that its
content policy forbids is noted.
"""

import base64
import fcntl
import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

ANSWER_WITHIN_S = 300.0
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--no-default-browser-check",
    "--disable-dev-shm-usage", "--force-device-scale-factor=1", "--force-color-profile=srgb",
    "--font-render-hinting=none", "--disable-lcd-text", "--disable-partial-raster",
    "--lang=en-US", "--remote-debugging-pipe",
)  # fmt: skip
TALLEST = 16_000  # pixels of one picture; Chromium repeats itself beyond a texture's height


class BrowserFailed(Exception):
    """The browser ended, did not answer, or refused a command."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is shown."""

    name: str
    width: int
    dark: bool = False
    print: bool = False
    phone: bool = False


LIGHT = Look("light", 1200)
DARK = Look("dark", 1200, dark=True)
PAPER = Look("print", 703, print=True)  # A4 within its margins of 12 mm, at 96 pixels to the inch
PHONE = Look("phone", 390, phone=True)
LOOKS = (LIGHT, DARK, PAPER, PHONE)


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a page in pixels."""

    x: int
    y: int
    width: int
    height: int


@dataclass
class Browser:
    """One page in a browser; `asked` and `refused` are what the page wanted since `open`."""

    process: int
    commands: int
    answers: int
    asked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _number: int = 0
    _session: str = ""
    _unread: bytes = b""
    _events: list[dict[str, Any]] = field(default_factory=list)

    def attach(self) -> Self:
        """Get a page of our own."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Log", "Audits", "Runtime"):
            self.call(f"{domain}.enable")
        return self

    def version(self) -> str:
        """Such as `Chrome/156.0.8078.79`."""
        return str(self.call("Browser.getVersion")["product"])

    def open(self, page: Path, look: Look = LIGHT) -> None:
        """Load a page, and wait until it is drawn."""
        self.look(look)
        self._events.clear()
        self.asked.clear()
        self.refused.clear()
        self.call("Page.navigate", url=page.as_uri())
        self._until("Page.loadEventFired")
        self._settled()
        own = page.as_uri()
        for event in self._events:
            self._note(event, own)

    def look(self, look: Look) -> None:
        """Show the page another way."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if look.dark else "light"}
        media = "print" if look.print else ""
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=look.width,
            height=900,
            deviceScaleFactor=1,
            mobile=look.phone,
        )
        if self._session and self._events:
            self._settled()

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        said = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in said:
            raise BrowserFailed(json.dumps(said["exceptionDetails"])[:500])
        return said["result"].get("value")

    def font(self, selector: str) -> str:
        """The font that an element is really drawn in."""
        for domain in ("DOM", "CSS"):
            self.call(f"{domain}.enable")
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        fonts = self.call("CSS.getPlatformFontsForNode", nodeId=node)["fonts"]
        return ", ".join(sorted({str(font["familyName"]) for font in fonts}))

    def height(self) -> int:
        """Of the whole page."""
        return int(self.evaluate("Math.ceil(document.documentElement.scrollHeight)"))

    def picture(self, box: Box) -> bytes:
        """A place of the page as PNG."""
        clip = {"x": box.x, "y": box.y, "width": box.width, "height": box.height, "scale": 1}
        said = self.call(
            "Page.captureScreenshot",
            format="png",
            clip=clip,
            captureBeyondViewport=True,
            optimizeForSpeed=True,
        )
        return base64.b64decode(said["data"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith(("Target.", "Browser.")):
            order["sessionId"] = self._session
        data = json.dumps(order).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        while True:
            said = self._next()
            if said.get("id") != self._number:
                self._events.append(said)
                continue
            if "error" in said:
                raise BrowserFailed(f"{method}: {said['error']['message']}")
            found: dict[str, Any] = said["result"]
            return found

    def _settled(self) -> None:
        frames = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
        self.evaluate(f"document.fonts.ready.then(() => {frames}).then(() => 1)")

    def _until(self, name: str) -> None:
        while not any(event.get("method") == name for event in self._events):
            self._events.append(self._next())

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + ANSWER_WITHIN_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self.answers, 1 << 20) if ready else b""
            if not data:
                raise BrowserFailed("the browser ended" if ready else "the browser is silent")
            self._unread += data
        one, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found

    def _note(self, event: dict[str, Any], own: str) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                url = params["request"]["url"]
                if url.partition("#")[0] != own and not url.startswith("data:"):
                    self.asked.append(url)
            case "Audits.issueAdded":
                issue = params["issue"]
                if issue["code"] == "ContentSecurityPolicyIssue":
                    details = issue["details"]["contentSecurityPolicyIssueDetails"]
                    told = details.get("blockedURL", "inline")
                    self.refused.append(f"{details['violatedDirective']}: {told}")
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.refused.append(params["entry"]["text"])


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    """A browser of our own, without a network: every name and address leads to a closed port."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as place:
        theirs_in, commands = os.pipe()
        answers, theirs_out = os.pipe()
        argv = [
            program, *QUIET, "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
            f"--user-data-dir={place}/profile", "about:blank",
        ]  # fmt: skip
        devnull = os.open(os.devnull, os.O_RDWR)
        # Copies beyond 4 first: 3 and 4 may be in use by what is to be given.
        kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 5) for fd in (theirs_in, theirs_out)]
        actions = [
            (os.POSIX_SPAWN_DUP2, devnull, 1),
            (os.POSIX_SPAWN_DUP2, devnull, 2),
            (os.POSIX_SPAWN_DUP2, kept[0], 3),
            (os.POSIX_SPAWN_DUP2, kept[1], 4),
        ]
        env = {**os.environ, "HOME": place, "LANG": "C.UTF-8", "TZ": "UTC"}
        process = os.posix_spawn(program, argv, env, file_actions=actions, setpgroup=0)
        for fd in (theirs_in, theirs_out, devnull, *kept):
            os.close(fd)
        try:
            yield Browser(process, commands, answers).attach()
        finally:
            os.close(commands)  # the browser ends by itself when its orders end
            _gone(process)
            os.close(answers)


def _gone(process: int) -> None:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
