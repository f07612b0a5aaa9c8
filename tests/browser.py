"""A headless Chromium that says what it made of a page, over its own debugging pipe; no driver needed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab; `events` is all it reported."""

    def __init__(self, profile: Path) -> None:
        read, child_write = os.pipe()
        child_read, write = os.pipe()
        # Chromium wants its pipe on descriptors 3 and 4, which only a shell can promise.
        command = (
            'exec "$0" --headless=new --no-sandbox --disable-gpu --remote-debugging-pipe '
            f'--user-data-dir="$1" about:blank 3<&{child_read} 4>&{child_write}'
        )
        self.process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, str(profile)],
            pass_fds=(child_read, child_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_read)
        os.close(child_write)
        self._in, self._out = os.fdopen(read, "rb"), os.fdopen(write, "wb")
        self._rest, self._calls, self.events, self._tab = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._tab = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _message(self) -> dict:
        parts = [self._rest]
        while b"\0" not in parts[-1]:
            piece = self._in.read1(1 << 16)
            assert piece, "the browser has gone"
            parts.append(piece)
        message, self._rest = b"".join(parts).split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, **params) -> dict:
        self._calls += 1
        request = {"id": self._calls, "method": method, "params": params}
        if self._tab:
            request["sessionId"] = self._tab
        self._out.write(json.dumps(request).encode() + b"\0")
        self._out.flush()
        while (message := self._message()).get("id") != self._calls:
            self.events.append(message)
        assert "error" not in message, message
        return message["result"]

    def open(self, path: Path, width: int, scheme: str) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        before = len(self.events)
        self.call("Page.navigate", url=path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events[before:]):
            self.events.append(self._message())

    def ask(self, expression: str):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self._in.close()
        self._out.close()
