"""
The page of a report in a real browser: `python -m tests.browser`.

It draws the reports of `reports.py` and of a real run, opens each in headless Chromium, and checks
what only a browser can: no error and no request, the time to load, the filter, accessibility (by
axe-core), light, dark and narrow. It leaves screenshots to be looked at, and is not a part of
`pytest`, which needs no browser.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.browser.checks import Look, Trouble, check_filter, check_policy, look_at
from tests.browser.real import real_report
from tests.browser.reports import ALL, hostile

from batchwright.report.page import render_html

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: Nothing of the browser's own may call home or need a display, root's sandbox included.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: What a page may weigh, bytes, and how long the largest may take to load, seconds.
MOST_BYTES = 2_000_000
MOST_SECONDS = 1.0


def main() -> int:
    """Run all checks; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", help="the browser to use; else the first one found")
    parser.add_argument("--shots", type=Path, help="a folder for the screenshots; else a new one")
    parser.add_argument("--items", type=int, default=90_000, help="size of the real run")
    given = parser.parse_args()
    chromium = given.chromium or next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        print(f"no Chromium here (looked for {', '.join(NAMES)}); --chromium names one")
        return 1
    shots = given.shots or Path(tempfile.mkdtemp(prefix="batchwright-shots."))
    shots.mkdir(parents=True, exist_ok=True)
    pages = draw(shots, given.items)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        print(f"Chromium {browser.version}; screenshots in {shots}")
        troubles = [trouble for page in pages for trouble in check(browser, page, shots)]
        browser.close()
    for trouble in troubles:
        print(f"WRONG: {trouble}")
    print("all is well" if not troubles else f"{len(troubles)} things are wrong")
    return 1 if troubles else 0


def draw(folder: Path, count: int) -> list[Path]:
    """Write every page into *folder*."""
    reports = {name: make() for name, make in ALL.items()}
    reports |= {"hostile": hostile(), "real": asyncio.run(real_report(count))}
    paths = []
    for name, report in reports.items():
        path = folder / f"{name}.html"
        path.write_text(render_html(report), "utf-8")
        paths.append(path)
    return paths


def check(browser: Browser, page: Path, shots: Path) -> list[str]:
    """Return what is wrong with a page."""
    troubles: list[Trouble] = []
    looks = [Look("light", 1_200), Look("dark", 1_200), Look("light", 400), Look("dark", 400)]
    times = []
    for look in looks:
        seconds, wrong = look_at(browser, page, look, shots)
        times.append(seconds)
        troubles += wrong
    troubles += check_filter(browser, page)
    troubles += check_policy(browser, page)
    size = page.stat().st_size
    print(f"{page.name}: {size:,} bytes, loaded in {min(times):.3f} to {max(times):.3f} s")
    if size >= MOST_BYTES:
        troubles.append(f"it has {size:,} bytes")
    # The best of four: what the page needs, and not what else the machine is at.
    if min(times) >= MOST_SECONDS:
        troubles.append(f"it takes {min(times):.2f} s to load")
    return [f"{page.name}: {trouble}" for trouble in troubles]


if __name__ == "__main__":
    sys.exit(main())
