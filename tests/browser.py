"""A headless Chromium that a test tells what to do, through a pipe (Chrome DevTools Protocol)."""

import itertools
import json
import os
import shutil
import subprocess
import time

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

COMPLAINTS = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")


class Browser:
    """One tab, and what pages in it complain of."""

    def __init__(self, profile):
        self.profile = profile
        (self.theirs, ours), (answers, written) = os.pipe(), os.pipe()
        self.orders, self.answers = os.fdopen(ours, "wb"), os.fdopen(answers, "rb")

        def connect():
            ends = os.dup(self.theirs), os.dup(written)  # neither is 3 or 4 by chance
            for end, place in zip(ends, (3, 4), strict=True):
                os.dup2(end, place)

        self.process = subprocess.Popen(
            [
                *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu"),
                *("--remote-debugging-pipe", f"--user-data-dir={profile}"),
                *("--hide-scrollbars", "--window-size=1300,1000", "--allow-file-access-from-files"),
                "--host-resolver-rules=MAP evil.test 127.0.0.1",
            ],
            preexec_fn=connect,  # noqa: PLW1509 - it duplicates files alone
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(self.theirs)
        os.close(written)
        self.numbers, self.tab, self.complaints = itertools.count(1), {}, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.tab = {"sessionId": attached["sessionId"]}
        for reporter in ("Log", "Runtime", "Page"):
            self.call(f"{reporter}.enable")

    def call(self, method, **parameters):
        """Answer to a method of the protocol."""
        number = next(self.numbers)
        order = {"id": number, "method": method, "params": parameters, **self.tab}
        self.orders.write(json.dumps(order).encode() + b"\0")
        self.orders.flush()
        while True:
            answer = bytearray()
            while (one := self.answers.read(1)) != b"\0":
                assert one, "the browser ended"
                answer += one
            found = json.loads(answer)
            if found.get("method") in COMPLAINTS:
                self.complaints.append(bytes(answer).decode())
            if found.get("id") == number:
                assert "error" not in found, found
                return found["result"]

    def go(self, address):
        """Open a page."""
        self.call("Page.navigate", url=address)

    def value(self, expression):
        """Value of an expression on the page."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        return self.call("Runtime.evaluate", **asked)["result"].get("value")

    def wait(self, expression):
        """Value of an expression once it is true, on any page that follows."""
        for _ in range(600):
            if self.value("document.readyState") == "complete" and (
                found := self.value(expression)
            ):
                return found
            time.sleep(0.1)
        raise TimeoutError(self.value("document.body.innerText"))

    def drop(self, field, *files):
        """Give files to a field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        found = self.call("DOM.querySelector", nodeId=root, selector=f"input[name={field}]")
        self.call("DOM.setFileInputFiles", files=list(map(str, files)), nodeId=found["nodeId"])

    def press(self, text):
        """Press a button."""
        buttons = "[...document.querySelectorAll('button')]"
        self.value(f"{buttons}.find(one => one.innerText == {text!r}).click()")

    def end(self):
        """End it."""
        self.tab = {}
        self.orders.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self.orders.flush()
        self.process.wait(timeout=60)
        self.orders.close()
        self.answers.close()
