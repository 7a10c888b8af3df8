"""
A plan as lines for a person: how many batches, what it costs, when it is done, what is wrong.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from batchwright.cli._advice import command
from batchwright.cli._options import Where
from batchwright.listeners._board import counted, span, told_items
from batchwright.report.plan import PlanReport, RangeReport, Trouble

#: Items shown one by one, of each kind of trouble.
SHOWN = 10
#: Models and groups of sub-batches shown one by one.
FEW = 5
_LONGEST = 240


def lines_of_plan(
    plan: PlanReport, source: str, where: Where, base_url: str | None = None
) -> list[str]:
    """Return *plan*, made of the items of *source*, as lines of text."""
    return [
        *_head(plan, source),
        *_paths(plan),
        *_stops(plan),
        *_troubles(plan),
        *_store(plan),
        *_models(plan),
        *(f"Note: {remark.message}" for remark in plan.remarks),
        *_talking(plan),
        *_next(plan, source, where, base_url),
    ]


def _head(plan: PlanReport, source: str) -> list[str]:
    items, shards = plan.items, plan.shards
    place = "stdin" if source == "-" else source
    lines = [f"Plan of run {plan.run_id!r}; nothing was sent."]
    if not shards:
        return [*lines, f"{told_items(items.passed)} in {place}, none of them to send"]
    batches = counted(len(shards), "batch", "batches")
    sizes = _between([shard.count for shard in shards], lambda n: f"{n:,}")
    requests = "request" if sizes == "1" else "requests"
    weight = _between([shard.size for shard in shards], _bytes)
    each = " each" if len(shards) > 1 else ""
    lines.append(
        f"{told_items(items.passed)} in {place}, {items.to_send:,} to send: {batches} of {sizes} "
        f"{requests} and {weight}{each}"
    )
    groups = {tuple(sorted(shard.headers.items())) for shard in shards}
    if len(groups) > 1:
        lines.append(f"  ({len(groups)} kinds of headers, which travel apart)")
    if plan.route.path == "sync":
        lines.append(f"Policy {plan.policy}: direct calls from the start: {plan.route.reason}")
    return lines


def _between(values: Iterable[int], form: Callable[[int], str]) -> str:
    ordered = sorted(values)
    low, high = form(ordered[0]), form(ordered[-1])
    return low if low == high else f"{low} to {high}"


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"


def _paths(plan: PlanReport) -> list[str]:
    if not plan.items.to_send:
        return []
    rows = [
        ("batches", _money(plan.cost.batch), _time(plan.finish.batch)),
        ("direct calls", _money(plan.cost.sync), _time(plan.finish.sync)),
    ]
    wide = max(len(money) for _, money, _ in rows)
    lines = [f"  by {name:<12}  {money:<{wide}}  {time}" for name, money, time in rows]
    return [*lines, *_sources(plan)]


def _sources(plan: PlanReport) -> list[str]:
    read, written = plan.tokens.input, plan.tokens.output
    batch, sync = plan.finish.batch, plan.finish.sync
    counted = f" ({plan.tokens.counted} of them)" if plan.tokens.counted else ""
    return [
        f"Tokens in: {_count(read)}, by {read.source}{counted}",
        f"Tokens out: {_count(written)}, by {written.source}",
        f"Times: batches by {batch.source}; direct calls by {sync.source}",
    ]


def _money(value: RangeReport) -> str:
    return _range(value, _usd) or value.source


def _usd(value: float) -> str:
    if 0 < value < 0.01:
        return "$0.01"
    return f"${value:,.2f}" if value < 1_000 else f"${value:,.0f}"


def _time(value: RangeReport) -> str:
    if value.likely is None and not value.low and value.high is not None:
        return f"within {span(value.high)}"
    return _range(value, span) or "nobody knows when"


def _count(value: RangeReport) -> str:
    return _range(value, _tokens) or "unknown"


def _tokens(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.1f} million"
    return f"{round(value):,}"


def _range(value: RangeReport, form: Callable[[float], str]) -> str:
    """Return a range in words, `""` where nothing of it is known."""
    if value.low is None:
        return ""
    low = form(value.low)
    if value.high is None:
        return f"at least {low}"
    high = form(value.high)
    if low == high:
        return high
    if value.likely is None:
        return f"{low} to {high}"
    return f"about {form(value.likely)} ({low} to {high})"


# -- what is wrong --------------------------------------------------------------------------------


def _stops(plan: PlanReport) -> list[str]:
    lists = {
        "unusable": (plan.items.unusable, "entries are no items", _unusable(plan)),
        "duplicate": (plan.items.duplicates, "ids occur twice", _doubles(plan)),
    }
    lines = []
    for stop in plan.stops:
        count, words, listed = lists.get(stop.kind, (1, "", []))
        if count > 1:
            lines += _some(f"Would stop the run: {count:,} {words}:", listed, count)
        else:
            lines.append(f"Would stop the run: {_short(stop.message)}")
    return lines


def _unusable(plan: PlanReport) -> list[str]:
    return [f"  {_short(t.message)}" for t in plan.troubles if t.kind == "unusable"]


def _doubles(plan: PlanReport) -> list[str]:
    return [
        f"  line {double.line}: {double.id!r} again, first in line {double.first_line}"
        if double.line is not None
        else f"  item {double.position}: {double.id!r} again, first at {double.first_position}"
        for double in plan.duplicates
    ]


def _troubles(plan: PlanReport) -> list[str]:
    lines = []
    if plan.items.refused:
        refused = [t for t in plan.troubles if t.kind != "unusable"]
        lines = [f"{told_items(plan.items.refused)} would not be sent:", *_by_reason(refused)]
    if failing := plan.items.bound_to_fail:
        lines.append(f"{told_items(failing)} would be sent only to fail (see the notes)")
    return lines


def _some(head: str, lines: list[str], count: int) -> list[str]:
    shown = lines[:SHOWN]
    more = [f"  … and {count - len(shown):,} more"] if count > len(shown) else []
    return [head, *shown, *more]


def _by_reason(troubles: Sequence[Trouble]) -> list[str]:
    """Return each reason once, with the places where it holds."""
    places: dict[str, list[str]] = {}
    for trouble in troubles:
        line = trouble.line
        place = f"line {line}" if line is not None else f"item {trouble.position}"
        places.setdefault(trouble.message, []).append(f"{place} ({trouble.id!r})")
    lines = []
    for message, found in list(places.items())[:SHOWN]:
        more = f" and {len(found) - FEW:,} more" if len(found) > FEW else ""
        lines.append(f"  {', '.join(found[:FEW])}{more}: {_short(message)}")
    if len(places) > SHOWN:
        lines.append(f"  … and {len(places) - SHOWN:,} more reasons")
    return lines


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"


# -- the rest -------------------------------------------------------------------------------------


def _store(plan: PlanReport) -> list[str]:
    store, items = plan.store, plan.items
    if not store.exists:
        return [f"Store: {store.name}, which the run will create"]
    states = (
        ("answered by earlier runs", items.cached),
        ("answered", items.answered),
        ("in flight", items.in_flight),
        ("waiting", items.waiting),
        ("quarantined or rejected", items.settled),
        ("held for you", items.held),
        ("changed", items.changed),
        ("new", items.new),
    )
    told = ", ".join(f"{count:,} {words}" for words, count in states if count)
    known = f"knows {told_items(store.items)} of this run" if store.items else "is new to this run"
    return [f"Store: {store.name} {known}. Passed now: {told or 'nothing'}"]


def _models(plan: PlanReport) -> list[str]:
    if len(plan.models) < 2:
        return [f"Model: {plan.models[0].model}"] if plan.models else []
    lines = [
        f"  {row.model}: {told_items(row.items)}, by batches {_money(row.usd_batch)}"
        for row in plan.models[:FEW]
    ]
    if len(plan.models) > FEW:
        lines.append(f"  … and {len(plan.models) - FEW:,} more")
    return ["Models:", *lines]


def _talking(plan: PlanReport) -> list[str]:
    return [
        f"It would talk to {talk.base_url} (API version {talk.api_version}, org {talk.org})"
        for talk in plan.talking_to
    ]


def _next(plan: PlanReport, source: str, where: Where, base_url: str | None) -> list[str]:
    if plan.stops or not plan.items.to_send:
        return []
    run = command("run", where, shlex.quote(source), "--out OUT.jsonl", base_url=base_url)
    return [f"Next: {run}"]
