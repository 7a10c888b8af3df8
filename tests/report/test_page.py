"""The page of a report, taken apart as a browser would; a browser itself is `tests.browser`."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest
from tests.browser.reports import (
    ALL,
    HOSTILE,
    START,
    after,
    batch,
    fell_short,
    hostile,
    large,
    missed,
    report,
    some_missed,
)
from tests.support import items, runner_on

from batchwright import AdaptivePolicy, ShardLimits
from batchwright.report.model import ResultsReport
from batchwright.report.page import render_html
from batchwright.report.page._axis import Axis, axis_of
from batchwright.report.page._charts import levels
from batchwright.report.page._html import el
from batchwright.report.page._lanes import Kind, kind_of, lanes_of, note_of
from batchwright.report.page._rows import MOST_ROWS, shown
from batchwright.report.page._words import money, share, span
from batchwright.simulator import WorldSettings
from batchwright.testing import simulate

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """A page as elements: each has its name, its attributes, and the text directly in it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.unbalanced: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        place = self.open.pop() if self.open else None
        if place is None or self.elements[place][0] != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.elements[self.open[-1]][2].append(data)

    def of(self, name: str, **wanted: str) -> list[tuple[dict[str, str | None], str]]:
        """Return the elements of a name, with their attributes and their text."""
        return [
            (attributes, "".join(text))
            for tag, attributes, text in self.elements
            if tag == name and all(attributes.get(k) == v for k, v in wanted.items())
        ]

    def text(self) -> str:
        """Return all text but that of scripts and styles."""
        kept = [text for tag, _, text in self.elements if tag not in {"script", "style"}]
        return " ".join("".join(text) for text in kept)


@pytest.fixture(params=sorted(ALL))
def page(request: pytest.FixtureRequest) -> Page:
    """The page of each of the reports that are looked at in the browser."""
    return Page(render_html(ALL[request.param]()))


def test_it_is_whole(page: Page) -> None:
    """Elements close in their order, and no id stands twice."""
    assert page.unbalanced == []
    assert page.open == []
    ids = [attributes["id"] for _, attributes, _ in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_it_loads_nothing(page: Page) -> None:
    """It is itself and nothing else: no address outside, and a policy that forbids one."""
    for tag, attributes, _ in page.elements:
        assert "src" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "style" not in attributes, tag
        href = attributes.get("href")
        assert href is None or href == "#main" or href.startswith("data:image/svg+xml,")
    ((policy, _),) = page.of("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.split(" ", 1) for rule in (policy["content"] or "").split("; "))
    assert rules["default-src"] == "'none'"
    ((_, style),) = page.of("style")
    ((_, script),) = [one for one in page.of("script") if "type" not in one[0]]
    for text, name in ((style, "style-src"), (script, "script-src")):
        assert rules[name] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    assert "url(" not in style
    assert "@import" not in style


def test_it_can_be_read_without_seeing_it(page: Page) -> None:
    """Landmarks, one first heading and none skipped, named charts, fields and tables."""
    for landmark in ("header", "main", "footer"):
        assert len(page.of(landmark)) == 1
    heads = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert heads.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(heads))
    for attributes, _ in page.of("svg"):
        inner = attributes.get("viewbox") is not None
        named = attributes.get("role") == "img" and attributes.get("aria-label")
        assert inner or named or attributes.get("aria-hidden") == "true"
    labels = {attributes["for"] for attributes, _ in page.of("label")}
    assert labels == {a["id"] for name in ("input", "select") for a, _ in page.of(name)}
    assert len(page.of("caption")) == len(page.of("table"))
    assert all(attributes.get("scope") for attributes, _ in page.of("th"))
    assert all(text or "scope" not in a for a, text in page.of("th", scope="col"))
    assert [attributes["lang"] for attributes, _ in page.of("html")] == ["en"]


def test_the_same_report_makes_the_same_page() -> None:
    """A page follows from its report alone."""
    assert render_html(large()) == render_html(large())


def test_no_text_breaks_out() -> None:
    """Whatever an id, an error or a name holds is text: it ends no script and makes no element."""
    page = Page(render_html(hostile()))
    assert page.unbalanced == []
    assert len(page.of("script")) == 2
    assert page.of("img") == []
    assert not [a for _, a, _ in page.elements for name in a if name.startswith("on")]
    ((_, data),) = page.of("script", type="application/json")
    assert not set(data) & set("<>&\u2028")
    told = json.loads(data)
    assert [row[0] for row in told["rows"]] == list(HOSTILE)
    assert [told["texts"][row[2]] for row in told["rows"]] == list(HOSTILE)
    assert [text for _, text in page.of("h1")] == [HOSTILE[0]]


def test_elements_escape_what_they_are_given() -> None:
    """Only what an element made itself passes as markup."""
    inner = el("b", "<i>", class_='"x"')
    assert el("p", inner, ["&", None, 3]) == ('<p><b class="&quot;x&quot;">&lt;i&gt;</b>&amp;3</p>')
    assert el("input", hidden=True, value=None, disabled=False) == "<input hidden>"


def test_the_page_of_a_large_run_is_small() -> None:
    """90,000 items with a switch, and most of them failed with long ids: below 2 MB, and it says
    how many it leaves out, which command prints them all, and something of every reason."""
    assert len(render_html(large()).encode()) < 1_000_000
    apart = [
        missed(n, "exhausted", id=f"{'ä' * 300}{n}", error=None) for n in range(60_000)
    ] + some_missed({"rejected": 5})
    made = report(items=90_000, apart=apart, unlisted=7)
    html = render_html(made)
    assert len(html.encode()) < 2_000_000
    rows = shown(made)
    left = 60_012 - len(rows)
    assert left > 50_000
    text = Page(html).text()
    assert f"{left:,} items more are not in this page" in text
    assert "batchwright export --run-id judge-round-7 --store judge.db --out all.jsonl" in text


def test_a_rare_reason_is_not_crowded_out() -> None:
    """Where there are too many rows each reason keeps its share, in the order of the items."""
    apart = [missed(n, "exhausted") for n in range(MOST_ROWS + 500)]
    apart += [missed(n, "overdue") for n in range(20_000, 20_003)]
    rows = shown(report(items=50_000, apart=apart))
    assert len(rows) == MOST_ROWS
    assert [row.reason for row in rows[-4:]] == ["exhausted", "overdue", "overdue", "overdue"]
    assert [row.id for row in rows] == sorted(row.id for row in rows)


#: Of a hundred items two are set aside, and one is to be tried again.
SOME = ResultsReport(succeeded=97, quarantined=2, rejected=0, unresolved=0, again=1)


def test_every_sub_batch_says_what_became_of_it() -> None:
    """The most telling thing of a sub-batch gives its colour, and words with numbers beside it."""
    cases = [
        (batch(1), Kind.SUCCEEDED, "all succeeded"),
        (batch(1, **fell_short(100, 3)), Kind.MIXED, "3 to be tried again"),
        # Read a second time after a broken stream: what was stored before is among the results.
        (batch(1, **fell_short(100, 3), stored_before=40), Kind.MIXED, "3 to be tried again"),
        (batch(1, **fell_short(100, 3) | {"results": SOME}), Kind.MIXED, "2 failed, 1 again"),
        (batch(1, **fell_short(100, 3, "expired")), Kind.EXPIRED, "3 expired"),
        (
            batch(1, canceled_by="drain", **fell_short(100, 90, "canceled")),
            Kind.CANCELED,
            "given up for direct calls",
        ),
        (batch(1, **fell_short(9, 9, "canceled")), Kind.CANCELED, "canceled from elsewhere"),
        (batch(1, state="held", reason="ambiguous"), Kind.HELD, "held: ambiguous"),
        (batch(1, took=None), Kind.LIVE, "on the server"),
        (batch(1, took=None, state="sending", batch_id=None), Kind.UNSENT, "sent, no answer yet"),
        (batch(1, state="done", reason="refused", batch_id=None), Kind.UNSENT, "refused"),
        # Of a report whose batches tell only the server's counts.
        (
            batch(1, lines=None, results=None, counts={"succeeded": 7_498, "errored": 2}),
            Kind.MIXED,
            "2 did not succeed",
        ),
    ]
    assert [(kind_of(b), note_of(b)) for b, _, _ in cases] == [(k, n) for _, k, n in cases]


def test_lanes_are_orgs_and_bars_lie_where_their_time_does() -> None:
    """One lane an org; the axis spans from the first sent to the last read; expiry is marked."""
    made = report(
        items=3,
        batches=[
            batch(1, took=12.0, org="a"),
            batch(2, took=24.01, org="b", **fell_short(7_500, 9, "expired")),
            batch(3, begun=12.0, took=2.0, org="a"),
        ],
    )
    axis = axis_of(made)
    assert axis.start == START
    a, b = lanes_of(made, axis)
    assert [a.name, b.name] == ["org a", "org b"]
    assert [bar.label for bar in a.bars] == ["#1", "#3"]
    assert a.bars[0].expires is None
    assert b.bars[0].expires == pytest.approx(100.0, abs=0.1)
    assert a.bars[0].end == pytest.approx(50.0, abs=0.2)
    assert all(bar.lead <= bar.start <= bar.end <= bar.tail for bar in (*a.bars, *b.bars))


def test_clocks_that_disagree_break_nothing() -> None:
    """A server whose clock runs ahead, or back, or a batch that ended before it began."""
    odd = batch(1, ended_at=START - timedelta(days=3), done_at=START - timedelta(days=9))
    made = report(items=1, batches=[odd, batch(2, created_at=after(900))])
    for lane in lanes_of(made, axis_of(made)):
        for bar in lane.bars:
            assert 0 <= bar.lead <= bar.start <= bar.end <= bar.tail <= 100
    assert Page(render_html(made)).unbalanced == []


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (1, "0 · 1 s"),
        (59, "0 · 10 s · 20 s · 30 s · 40 s · 50 s"),
        (6_000, "0 · 15 min · 30 min · 45 min · 60 min · 75 min · 90 min"),
        (9_000, "0 · 0.5 h · 1 h · 1.5 h · 2 h · 2.5 h"),
        (93_600, "0 · 6 h · 12 h · 18 h · 24 h"),
        (86_400 * 29, "0 · 7 d · 14 d · 21 d · 28 d"),
    ],
)
def test_ticks_are_few_and_round(seconds: float, told: str) -> None:
    """From a second to a month the axis has some ticks, in one unit, at times people count in."""
    ticks = Axis(start=START, seconds=seconds).ticks()
    assert " · ".join(text for _, text in ticks) == told
    assert all(0 <= at <= 100 for at, _ in ticks)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [0, 1]),
        (7, [0, 2, 4, 7]),
        (90_000, [0, 20_000, 40_000, 60_000, 90_000]),
        (10**10, [0, 2 * 10**9, 4 * 10**9, 6 * 10**9, 8 * 10**9, 10**10]),
    ],
)
def test_levels_are_round_and_end_with_the_whole(most: int, expected: list[int]) -> None:
    """The scale of the answers has round counts and the number of items itself."""
    assert levels(most) == expected


def test_words() -> None:
    """Money that is unknown is not zero; a share that is nearly all is not all."""
    assert [money(None), money(0.0), money(0.004), money(1234.5)] == [
        *("unknown", "$0.00", "under $0.01", "$1,234.50"),
    ]
    assert [share(0, 0), share(1, 90_000), share(89_999, 90_000), share(3, 3)] == [
        *("0%", "under 0.1%", "over 99.9%", "100%"),
    ]
    assert [span(0.25), span(61), span(3_600), span(90_060), span(200_000)] == [
        *("0.2 s", "1 min 1 s", "1 h", "25 h 1 min", "2 d 8 h"),
    ]


# -- colours --------------------------------------------------------------------------------------


def palettes() -> list[dict[str, str]]:
    """Return the colours of the light page and of the dark one."""
    css = resources.files("batchwright.report.page").joinpath("page.css").read_text("utf-8")
    light, dark, *_ = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in (light, dark)]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG has it."""
    values = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out() -> None:
    """Text is at least 4.5 to 1 and what a chart is drawn with 3 to 1 (WCAG AA), light and dark."""
    text, drawn = (
        ("ink", "muted"),
        (
            *(
                "succeeded",
                "mixed",
                "expired",
                "canceled",
                "held",
                "live",
                "unsent",
                "direct",
                "focus",
            ),
        ),
    )
    for colours in palettes():
        for ground in ("paper", "raised"):
            weak = {n: contrast(colours[n], colours[ground]) for n in text}
            assert min(weak.values()) >= 4.5, weak
            weak = {n: contrast(colours[n], colours[ground]) for n in drawn}
            assert min(weak.values()) >= 3.0, weak


# -- of a real run --------------------------------------------------------------------------------


async def test_the_page_of_a_real_run_with_a_switch() -> None:
    """What a run reports is drawn: each sub-batch a bar, the switch a mark, both paths a cost."""
    settings = WorldSettings(
        duration=(80_000, 84_000), cancel_seconds=(10, 50), cancel_in_flight=0.1
    )
    async with (
        simulate(settings=settings) as sim,
        runner_on(
            sim,
            policy=AdaptivePolicy("balanced", confirmations=1),
            limits=ShardLimits(max_requests=10),
        ) as runner,
    ):
        result = await runner.run(items(60))
    assert result.report.switches
    page = Page(render_html(result.report))
    labels = [text for _, text in page.of("li") if re.fullmatch(r"#\d+", text)]
    assert len(labels) == len(result.report.batches) == 6
    assert "The switch to direct calls" in page.text()
    assert [text for _, text in page.of("text", **{"class": "mark"})] == ["switch", "switch"]
    assert "direct calls" in [text for _, text in page.of("th", scope="row")]
    assert not any(question in page.text() for question in ("question 0", "question 59"))
