"""What is looked at in a browser; each check returns what is wrong, in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

Trouble: TypeAlias = str

#: Milliseconds for anything in a page to come about.
PATIENCE = 5_000

_TIMING = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_LOADED = f"{_TIMING} > 0"
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
_CLOSE_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = false; })"
_VIOLATE = """async () => {
  const seen = [];
  document.addEventListener("securitypolicyviolation", (e) => seen.push(e.effectiveDirective));
  const image = document.createElement("img");
  image.src = "http://127.0.0.1:9/x.png";
  const script = document.createElement("script");
  script.textContent = "window.broken = 1";
  const style = document.createElement("style");
  style.textContent = "body { display: none }";
  document.body.append(image, script, style);
  await fetch("http://127.0.0.1:9/").catch(() => {});
  await new Promise((done) => setTimeout(done, 50));
  return seen.map((one) => one.replace(/-elem$/, "")).sort();
}"""


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is looked at: the preferred colours, and the width in pixels."""

    scheme: str
    width: int


class Watched:
    """A page whose errors and requests are written down."""

    def __init__(self, browser: Browser, path: Path, look: Look) -> None:
        self.troubles: list[Trouble] = []
        self.url = path.as_uri()
        self.page: Page = browser.new_page(
            viewport={"width": look.width, "height": 900},
            color_scheme=look.scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: self._note(f"console {message.type}", message.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))
        self.page.on("request", self._requested)
        self.page.goto(self.url)
        self.page.wait_for_function(_LOADED)

    def _note(self, kind: str, text: str) -> None:
        self.troubles.append(f"{kind}: {text}")

    def _requested(self, request) -> None:
        if request.url != self.url and not request.url.startswith("data:"):
            self._note("request", request.url)


def look_at(browser: Browser, path: Path, look: Look, shots: Path) -> tuple[float, list[Trouble]]:
    """Open a page, take its picture; return its seconds to load and what is wrong."""
    watched = Watched(browser, path, look)
    page, name = watched.page, f"{look.scheme} {look.width}"
    seconds = float(page.evaluate(_TIMING)) / 1_000
    page.screenshot(path=shots / f"{path.stem}-{look.scheme}-{look.width}.png", full_page=True)
    page.evaluate(_OPEN_ALL)
    overflow = page.evaluate(_OVERFLOW)
    troubles = [f"it is {overflow} pixels too wide"] if overflow > 0 else []
    troubles += [
        f"{one['id']}: {one['help']}, {len(one['nodes'])} times, as in {one['nodes'][0]['html']}"
        for one in Axe().run(page).response["violations"]
    ]
    if page.evaluate("typeof broken") != "undefined":
        troubles.append("a text of the report was run")
    page.close()
    return seconds, [f"{name}: {trouble}" for trouble in troubles + watched.troubles]


def check_filter(browser: Browser, path: Path) -> list[Trouble]:
    """Use the filter with the keyboard alone, where there is one; compare with the data itself."""
    watched = Watched(browser, path, Look("light", 1_200))
    page = watched.page
    if not page.locator("#filter").count():
        page.close()
        return watched.troubles
    rows = page.evaluate("JSON.parse(document.getElementById('rows').textContent)")
    troubles = [*_check_search(page, rows), *_check_reason(page, rows), *_check_more(page, rows)]
    page.close()
    return troubles + watched.troubles


def _shown(page: Page) -> list[str]:
    return page.locator("#missed tbody th").all_text_contents()


def _check_search(page: Page, rows) -> list[Trouble]:
    last = rows["rows"][-1][0]
    page.locator("#text").focus()
    page.keyboard.insert_text(last.upper())
    expected = [row[0] for row in rows["rows"] if last.lower() in row[0].lower()][:200]
    found = _shown(page)
    page.locator("#text").fill("there is no such text")
    none = _shown(page) + (
        [] if page.locator("#shown").text_content() == "Nothing matches." else [""]
    )
    page.locator("#text").fill("")
    return [
        *([] if found == expected else [f"the search for {last!r} shows {found[:3]}"]),
        *([] if not none else ["a search for nothing shows something"]),
    ]


def _check_reason(page: Page, rows) -> list[Trouble]:
    reason = rows["texts"][rows["rows"][-1][2]]
    page.locator("#reason").select_option(reason)
    place = rows["texts"].index(reason)
    expected = [row[0] for row in rows["rows"] if row[2] == place]
    found = _shown(page)
    told = page.locator("#shown").text_content() or ""
    page.locator("#reason").select_option("")
    if found != expected[:200] or f"of {len(expected):,} shown" not in told:
        return [f"the reason {reason!r} shows {len(found)} rows and says {told!r}"]
    return []


def _check_more(page: Page, rows) -> list[Trouble]:
    everything = [row[0] for row in rows["rows"]]
    more = page.locator("#more")
    if len(everything) <= 200:
        return ["there is no more, yet a button for it"] if more.is_visible() else []
    more.focus()
    page.keyboard.press("Enter")
    return [] if _shown(page) == everything[:400] else ["the button does not show more"]


def check_policy(browser: Browser, path: Path) -> list[Trouble]:
    """Try what the page's own policy forbids: to reach out, to run, to dress up."""
    watched = Watched(browser, path, Look("light", 1_200))
    seen = watched.page.evaluate(_VIOLATE)
    watched.page.close()
    expected = ["connect-src", "img-src", "script-src", "style-src"]
    return [] if seen == expected else [f"the policy forbade {seen}, not {expected}"]
