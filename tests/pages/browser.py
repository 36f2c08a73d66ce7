# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, spoken to over a pipe (DevTools protocol): no driver, no port, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

TIME_LIMIT = 60


def find():
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page. errors: what went wrong in it; requests: addresses that were asked for."""

    def __init__(self, width=1400, height=900):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
        ]
        command = [
            find(), *flags, "--disable-background-networking", "--remote-debugging-pipe",
            f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip

        # The protocol is spoken on the file descriptors 3 and 4.
        def place():
            a, b = os.dup(to_read), os.dup(from_write)
            high = [os.dup2(a, 100), os.dup2(b, 101)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            command, preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        self.buffer, self.number, self.session = b"", 0, None
        self.errors, self.requests, self.events = [], [], []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")[
            "targetId"
        ]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(domain + ".enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def read(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            got = os.read(self.back, 1 << 20)
            if not got:
                raise EOFError("Chromium has ended")
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def note(self, message):
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(str([a.get("value") for a in given["args"]]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append("dialog: " + given["message"])
        if method:
            self.events.append(method)

    def call(self, method, **given):
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIME_LIMIT
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def open(self, address):
        self.events.clear()
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + TIME_LIMIT
        while "Page.loadEventFired" not in self.events:
            self.note(self.read(deadline))

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails'].get('exception', answer)}")
        return answer["result"].get("value")

    def key(self, key, text=None):
        given = {"key": key, "text": text} if text or len(key) == 1 else {"key": key}
        if len(key) == 1:
            given["text"] = key
        self.call("Input.dispatchKeyEvent", type="keyDown", **given)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(TIME_LIMIT)
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()
