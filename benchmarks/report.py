"""Loading and response times of a report with many images, and as a multiple of a short report's.

Each repeat starts headless Chromium from disk, for a report of 100 images and for the long one, and
measures: the time to first paint, as the browser reports it, and to the list of all rows of eleven
comparisons; the time from a filter or a sort to the frame that shows it; the longest of 120 frames
while scrolling by 73 rows each; the script's memory after a garbage collection. Target: first paint
1 s.

    PYTHONPATH=. python benchmarks/report.py [--images N] [--repeats N]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from figures import Figure, ratios, show

from alignkit.report import render
from tests.browser.conftest import Browser, new_driver
from tests.report.run_folder import write_long_run

SHORT = 100
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
LISTED = """
const done = arguments[0];
const look = () => / of [1-9]\\d* rows/.test(document.querySelector('.list output')?.textContent)
  ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
look();
"""
SHOWN = "requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));"
FILTER = f"""
const done = arguments[0], box = document.querySelector('#query'), began = performance.now();
box.value = 'flip:lost path:pillow mean>4';
box.dispatchEvent(new Event('input', {{bubbles: true}}));
{SHOWN}
"""
ORDER = f"""
const done = arguments[0], began = performance.now();
document.querySelector('.rows thead th:last-child button').click();
{SHOWN}
"""
SCROLL = """
const done = arguments[0], box = document.querySelector('.rows');
let last = performance.now(), longest = 0, frames = 0;
const step = (now) => {
  longest = Math.max(longest, now - last);
  last = now;
  box.scrollTop += 2500;
  if (++frames < 120) requestAnimationFrame(step);
  else done(longest);
};
requestAnimationFrame(step);
"""


def measured(folder: Path) -> dict[str, float]:
    """Measure each act in milliseconds, and the memory in megabytes."""
    driver = new_driver()
    try:
        browser = Browser(driver, folder)
        driver.get(browser.page)
        found = {"listed": driver.execute_async_script(LISTED)}
        found["first paint"] = browser.run(PAINT)
        for name, script in {"scroll": SCROLL, "order": ORDER, "filter": FILTER}.items():
            found[name] = driver.execute_async_script(script)
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        used = driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
        found["memory, MB"] = (used["usedSize"] + used["backingStorageSize"]) / 1e6
    finally:
        driver.quit()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folders = {SHORT: Path(name) / "short", given.images: Path(name) / "long"}
        for images, folder in folders.items():
            folder.mkdir()
            write_long_run(folder, images=images)
            render(folder)
        files = ", ".join(
            f"{path} {(folder / path).stat().st_size / 1e6:.2f} MB"
            for path in ("index.html", "data/run.js")
        )
        print(f"{given.images} images, {11 * given.images} rows; {files}; milliseconds")
        rounds = [
            {images: measured(each) for images, each in folders.items()}
            for _ in range(given.repeats)
        ]
    for act in rounds[0][SHORT]:
        print(f"{act:12}", "  ".join(f"{each[given.images][act]:7.0f}" for each in rounds))
    paints = [[each[images]["first paint"] for each in rounds] for images in folders]
    show(
        [
            Figure(f"first paint, {given.images} images", paints[1], at_most=1000, unit="ms"),
            Figure(f"first paint, {given.images} / {SHORT} images", ratios(paints[1], paints[0])),
        ]
    )


if __name__ == "__main__":
    main()
