"""The page in a real browser, opened from disk."""

import json
import shlex
from csv import reader
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

VIEW = "#/image/opencv%3Epillow/eval%2F0011.jpg"


def requests(driver):
    """Addresses that the browser asked for."""
    entries = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    sent = [e for e in entries if e["method"] == "Network.requestWillBeSent"]
    return [e["params"]["request"]["url"] for e in sent]


def test_nothing_is_asked_of_a_network_and_nothing_fails(browser):
    browser.driver.get_log("performance")
    browser.open()
    browser.view(VIEW)
    asked = requests(browser.driver)
    assert any(address.endswith("data/run.js") for address in asked)
    assert all(address.startswith(("file://", "data:", "about:")) for address in asked)
    assert browser.problems() == []


def test_page_itself_never_scrolls_sideways(browser):
    browser.open()
    for width in (1440, 768, 360):
        browser.size(width, 900)
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_metric_is_switched_without_a_script(browser):
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open("", "return true")
        shown = (
            "return [...document.querySelectorAll('.panel')].map(p => getComputedStyle(p).display)"
        )
        assert browser.run(shown) == ["block", "none", "none"]
        label = browser.driver.find_element("css selector", "label:has(#show-churn)")
        # the page scrolls smoothly, and a click in the midst of it misses
        browser.run("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", label)
        label.click()
        assert browser.run(shown) == ["none", "none", "block"]
        assert "noscript" not in browser.text("#images")
        assert browser.run("return document.images.length") == 36
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


JENKINS = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self'"


def test_page_is_styled_under_the_content_security_policy_of_jenkins(browser, run_folder):
    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self):
            self.send_header("Content-Security-Policy", JENKINS)
            super().end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=run_folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        browser.driver.get(f"http://127.0.0.1:{server.server_port}/index.html")
        colour = "return getComputedStyle(document.querySelector('.matrix .n5')).backgroundColor"
        assert browser.run(colour) == "rgb(232, 139, 34)"
        assert browser.run("return document.querySelectorAll('.list').length") == 0
        assert not [text for text in browser.problems() if "style" in text.lower()]
    finally:
        server.shutdown()
        server.server_close()


def test_every_metric_is_printed(browser):
    browser.open()
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = browser.run(
            "return [...document.querySelectorAll('.panel')].map(p => getComputedStyle(p).display)"
        )
        assert shown == ["block"] * 3
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_cell_leads_to_the_images_that_flipped_in_it(browser):
    browser.open()
    link = "document.querySelector('.panel-churn .matrix tr:nth-child(1) td:nth-of-type(4) a')"
    lost, gained = browser.run(
        f"return {link}.closest('td').textContent.match(/(\\d+) lost, (\\d+) gained/).slice(1)"
    )
    browser.run(f"{link}.click()")
    browser.until("return document.querySelector('#query').value === 'flip:yes'")
    browser.until(
        "return /^\\d+ of 1.000/.test(document.querySelector('.list output').textContent)"
    )
    assert browser.run("return document.querySelector('.list select').selectedOptions[0].text") == (
        "opencv → torchpipe-gpu (surrogate), torch fp32"
    )
    shown = int(browser.text(".list output").split()[0])
    assert 0 < shown <= int(lost) + int(gained) + 200


COPIED = (
    "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
    " {value: {writeText: async (text) => copied.push(text)}, configurable: true})"
)


def test_tables_are_copied_as_csv_and_markdown(browser):
    browser.open()
    browser.run(COPIED)
    browser.run(
        "[...document.querySelectorAll('#stages .scroll')]"
        ".find(s => s.textContent.includes('Isolated'))"
        ".nextElementSibling.querySelectorAll('button').forEach(b => b.click())"
    )
    csv, markdown = browser.run("return copied")
    rows = list(reader(csv.splitlines()))
    assert rows[0][:3] == ["Stage", "Isolated Max Δ", "Isolated Mean Δ"]
    assert {len(row) for row in rows} == {13}
    assert markdown.splitlines()[1].startswith("| --- | --- |")


def test_a_table_is_sorted_by_a_head_and_a_long_one_is_filtered(browser):
    browser.open()
    at = "const t = document.querySelector('#entry-0').closest('table'); const b = t.tBodies[0];"
    column = (
        f"{at} const h = [...t.tHead.rows].at(-1).cells;"
        "const k = [...h].findIndex(c => c.textContent === 'Churn');"
    )
    values = f"{column} return [...b.rows].map(r => r.cells[k].textContent)"
    before = browser.run(values)
    for state in ("descending", "ascending"):
        assert browser.run(f"{column} h[k].firstChild.click(); return h[k].ariaSort") == state
        shown = [float(each[:-2]) for each in browser.run(values) if not each.startswith("–")]
        assert shown == sorted(shown, reverse=state == "descending")
    # what has no number comes last, and nothing is lost
    assert sorted(browser.run(values)) == sorted(before)
    assert browser.run(values)[-1].startswith("–")
    browser.run(
        f"{at} const f = t.closest('.scroll').previousElementSibling.firstChild;"
        "f.value = 'onnxruntime fp16'; f.dispatchEvent(new Event('input'))"
    )
    rows = browser.run(f"{at} return [...b.rows].filter(r => !r.hidden).map(r => r.textContent)")
    assert 0 < len(rows) < len(before)
    assert all("onnxruntime fp16" in each for each in rows)


def test_copied_cells_keep_the_marks_of_their_notes(browser):
    browser.open()
    browser.run(COPIED)
    browser.run(
        "document.querySelectorAll('.copy button').forEach(b => b.textContent === 'Copy CSV' && b.click())"
    )
    marks = browser.run(
        "return [...document.querySelectorAll('.scroll table sup')].map(e => e.textContent)"
    )
    assert marks
    copied = "\n".join(browser.run("return copied"))
    assert all(f" ({mark})" in copied for mark in marks)


@pytest.mark.parametrize("link", ["", VIEW])
def test_page_passes_an_accessibility_audit(browser, link):
    browser.view(link) if link else browser.open()
    assert browser.violations() == []


def test_worst_images_are_compared_in_place_without_a_script(browser):
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open("", "return true")
        shown = (
            "return [...document.querySelector('.card').querySelectorAll('figure')]"
            ".map(f => getComputedStyle(f).display !== 'none')"
        )
        assert browser.run(shown) == [True, True, True]
        for place, name in enumerate(("a", "b", "difference")):
            browser.run(f"document.querySelector('#see-{name}').click()")
            assert browser.run(shown) == [place == each for each in range(3)]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_commands_of_an_image_and_of_a_cell_are_copied(browser):
    browser.open(
        "#/image/opencv%3Epillow/it's%20%2411.jpg?cell=9",
        "return !!document.querySelector('.unkept .command')",
    )
    browser.run(COPIED)
    button = "[...document.querySelectorAll('{} button')].find(b => b.textContent === 'Copy command').click()"
    browser.run(button.format(".viewer"))
    browser.run(button.format(".list"))
    image, cell = (shlex.split(line) for line in browser.run("return copied"))
    assert image[:3] == ["alignkit", "diff", "--config"]
    assert image[-6:] == [
        "--preprocess",
        "opencv",
        "--preprocess",
        "pillow",
        "--only",
        "it's $11.jpg",
    ]
    assert cell[-2:] == ["--cell", "opencv/pillow/torch/bf16"]


def test_nothing_moves_as_pictures_load(browser):
    browser.open()
    sizes = browser.run(
        "return [...document.images].map(i => [i.width > 0, i.getAttribute('width')])"
    )
    assert sizes
    assert all(drawn and stated for drawn, stated in sizes)
    browser.run("window.scrollTo(0, document.body.scrollHeight)")
    moved = browser.driver.execute_async_script(
        "const done = arguments[0]; let sum = 0; new PerformanceObserver(list =>"
        " list.getEntries().forEach(e => e.hadRecentInput || (sum += e.value)))"
        ".observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(sum), 300)"
    )
    assert moved < 0.01
