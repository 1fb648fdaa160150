"""A headless Firefox, driven by its own Marionette protocol: no driver has to be installed.

Firefox under automation permits pages on ``file://`` what it forbids a user's; the preference
``remote.prefs.recommended=false`` keeps it as strict as theirs.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.browser.conftest import PATIENCE, SHOWN, Browser

PREFERENCES = {
    "marionette.port": 0,
    "remote.prefs.recommended": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.disabledForTesting": True,
}
START = 60.0
"""Seconds Firefox may take to listen."""


class Marionette:
    """A running Firefox; what `Browser` asks of a Selenium driver."""

    def __init__(self, profile: Path):
        firefox = shutil.which("firefox-esr") or shutil.which("firefox")
        if not firefox:
            pytest.skip("Firefox is not installed: apt-get install firefox-esr")
        lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items())
        (profile / "user.js").write_text("\n".join(lines))
        self.process = subprocess.Popen(
            [firefox, "--headless", "--marionette", "--remote-allow-system-access",
             "--no-remote", "--profile", profile, "about:blank"],
            env={**os.environ, "HOME": str(profile)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self.socket = socket.create_connection(("127.0.0.1", self._port(profile)), timeout=60)
            self.answers = self.socket.makefile("rb")
            self._read()  # its greeting
            self.ask("WebDriver:NewSession", capabilities={})
            self.ask("WebDriver:SetTimeouts", script=1000 * PATIENCE)
        except BaseException:
            self.process.kill()
            raise

    def _port(self, profile: Path) -> int:
        end = time.monotonic() + START
        while not (profile / "MarionetteActivePort").exists():
            assert self.process.poll() is None, "Firefox ended before it listened"
            assert time.monotonic() < end, "Firefox did not begin to listen"
            time.sleep(0.05)
        return int((profile / "MarionetteActivePort").read_text())

    def _read(self):
        length = b""
        while (byte := self.answers.read(1)) != b":":
            length += byte
        return json.loads(self.answers.read(int(length)))

    def ask(self, command: str, **parameters):
        """The answer to one command; raises `RuntimeError` where Firefox refuses it."""
        message = json.dumps([0, 1, command, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, answer = self._read()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return answer

    def get(self, address: str) -> None:
        self.ask("WebDriver:Navigate", url=address)

    @property
    def current_url(self) -> str:
        return self.ask("WebDriver:GetCurrentURL")["value"]

    def execute_script(self, script: str, *arguments):
        return self.ask("WebDriver:ExecuteScript", script=script, args=arguments)["value"]

    def execute_async_script(self, script: str, *arguments):
        return self.ask("WebDriver:ExecuteAsyncScript", script=script, args=arguments)["value"]

    def privileged(self, script: str, *arguments):
        """Run a script as the browser, not as the page."""
        self.ask("Marionette:SetContext", value="chrome")
        try:
            return self.execute_script(script, *arguments)
        finally:
            self.ask("Marionette:SetContext", value="content")

    def quit(self) -> None:
        self.ask("Marionette:Quit", flags=["eForceQuit"])
        self.answers.close()
        self.socket.close()
        self.process.wait(30)


class Firefox(Browser):
    """What the tests ask of a page, asked of Firefox."""

    def __init__(self, driver, folder):
        driver.privileged("Services.console.reset()")
        super().__init__(driver, folder)

    def size(self, width, height):
        outer = self.driver.execute_script(
            "return [outerWidth - innerWidth, outerHeight - innerHeight]"
        )
        self.driver.ask("WebDriver:SetWindowRect", width=width + outer[0], height=height + outer[1])

    def scheme(self, name):
        key = "layout.css.prefers-color-scheme.content-override"
        value = ["dark", "light"].index(name)
        self.driver.privileged("Services.prefs.setIntPref(...arguments)", key, value)

    def press(self, *keys):
        for key in keys:
            strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
            actions = [{"type": "key", "id": "keyboard", "actions": strokes}]
            self.driver.ask("WebDriver:PerformActions", actions=actions)
            self.driver.execute_async_script(SHOWN)

    def problems(self):
        return self.driver.privileged(
            "return Services.console.getMessageArray()"
            ".filter(m => m instanceof Ci.nsIScriptError && m.sourceName.startsWith('file:'))"
            ".map(m => m.toString())"
        )
