"""A headless Chromium on ``file://`` pages; the tests are skipped where there is none."""

import base64
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from alignkit.report import render
from tests.report.run_folder import write_run

AXE = Path(__file__).parents[2] / "alignkit/report/assets/src/node_modules/axe-core/axe.min.js"
PATIENCE = 120
"""Seconds that an audit of the longest page may take beside other tests."""
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """A rendered run with predictions, image tables and exact pixels."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    render(folder)
    return folder


def new_driver():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    driver.set_script_timeout(PATIENCE)
    return driver


SHOWN = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
"""What a key changed is drawn by the second frame after it."""


TURNED = """
const [link, done] = arguments, frames = () => requestAnimationFrame(() => requestAnimationFrame(done));
if (location.hash === link) frames();
else { addEventListener("hashchange", frames, { once: true }); location.hash = link; }
"""


class Browser:
    """What the tests ask of a page."""

    def __init__(self, driver, folder):
        self.driver, self.page = driver, (folder / "index.html").as_uri()
        self.size(1440, 900)
        self.scheme("light")

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name):
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, link="", ready="return !!document.querySelector('.rows tbody tr')"):
        self.driver.get("about:blank")  # a new hash alone would not load the page again
        self.driver.get(self.page + link)
        self.until(ready)

    def view(self, link):
        """Open a link to an image in a viewer of its own and wait for its pixels.

        The page is loaded once: to load it for each view took most of the time of these tests.
        """
        shown = "return !!document.querySelector('.viewer .readout')"
        if self.driver.current_url.startswith(self.page) and self.run("return !!self.viewed"):
            self.driver.execute_async_script(TURNED, "#/images")
            self.until("return !document.querySelector('.viewer')")
            self.driver.execute_async_script(TURNED, link)
            self.until(shown)
        else:
            self.open(link, shown)
            self.run("self.viewed = true")

    def turn(self, link):
        """Follow a link to an image, within the viewer where it is there already."""
        shown = "return !!document.querySelector('.viewer .readout')"
        if self.driver.current_url.startswith(self.page + "#") and self.run(shown):
            self.driver.execute_async_script(TURNED, link)
        else:
            self.view(link)

    def until(self, condition, seconds=10.0):
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.02)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
            self.driver.execute_async_script(SHOWN)

    def canvas(self):
        """(height, width, 3) uint8: what the viewer's canvas shows, byte for byte."""
        width, height, data = self.run(
            "const c = document.querySelector('.viewer canvas');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let s = ''; for (let i = 0; i < d.length; i += 4096)"
            " s += String.fromCharCode(...d.subarray(i, i + 4096));"
            "return [c.width, c.height, btoa(s)]"
        )
        pixels = np.frombuffer(base64.b64decode(data), np.uint8)
        return pixels.reshape(height, width, 4)[..., :3]

    def violations(self, of="document"):
        """What axe-core finds against the page, or a part of it, in the light and in the dark."""
        if not AXE.exists():
            pytest.skip("axe-core is not installed: npm ci in alignkit/report/assets/src")
        self.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        # of the rules, that of contrast alone depends on the colours
        tags = "['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']"
        found = []
        for scheme, rules in (("light", tags), ("dark", "['color-contrast']")):
            self.scheme(scheme)
            dark = self.run("return matchMedia('(prefers-color-scheme: dark)').matches")
            assert dark == (scheme == "dark")
            found += self.driver.execute_async_script(
                f"{AXE.read_text()}; const done = arguments[0]; axe.run({of}, {{runOnly: {rules}}})"
                ".then(r => done(r.violations.map(v => [v.id, v.nodes[0].html])))"
            )
        return found

    def problems(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def driver():
    driver = new_driver()
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver, run_folder):
    driver.get_log("browser")
    return Browser(driver, run_folder)


@pytest.fixture
def fresh_browser(run_folder):
    """A browser that has seen nothing."""
    driver = new_driver()
    yield Browser(driver, run_folder)
    driver.quit()
