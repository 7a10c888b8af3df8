"""
`custom-id-policy`: legal, unique, stable, from business ids and never from positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from batchwright._custom_ids import CUSTOM_ID_OF, CUSTOM_ID_PATTERN, stem_of
from batchwright.report._evidence import LEGAL
from batchwright.report.findings import Finding
from batchwright.report.model import IdsReport, RunReport

_POLICY: Final = "custom-id-policy"
_CODE: Final = re.compile(r"-[0-9A-Za-z]{11}")
_POSITION: Final = re.compile(r"position|index|row|line|number|count", re.IGNORECASE)


class _Pair(NamedTuple):
    place: str
    id: str
    custom_id: str
    position: int | None


def check(report: RunReport) -> Iterator[Finding]:
    """Yield what is wrong with how ids are made, and with each id that the report shows."""
    yield from check_making(report.ids)
    shown = _shown(report.ids)
    listed = [
        _Pair(f"not_succeeded.listed[{n}]", one.id, one.custom_id, None)
        for n, one in enumerate(report.not_succeeded.listed)
    ]
    for pair in (*shown, *listed):
        yield from _made(pair)
    yield from _unique(listed, {})
    # An example may be listed, too; then it has the same ids there.
    yield from _unique(shown, {pair.id: pair.custom_id for pair in listed})


def check_making(ids: IdsReport) -> Iterator[Finding]:
    """Yield what is wrong with what custom_ids are said to be made of."""
    if ids.pattern != CUSTOM_ID_PATTERN:
        text = f"is {ids.pattern!r}, the API takes {CUSTOM_ID_PATTERN}"
        yield _finding("legal", "ids.pattern", text)
    for place, source in enumerate(ids.derived_from):
        if source in CUSTOM_ID_OF:
            continue
        rule = "never-from-positions" if _POSITION.search(source) else "stable"
        text = f"{source!r} is not what a custom_id may be made of"
        yield _finding(rule, f"ids.derived_from[{place}]", text)
    if lacking := [source for source in CUSTOM_ID_OF if source not in ids.derived_from]:
        text = f"lacks {', '.join(lacking)}"
        yield _finding("stable", "ids.derived_from", text)


def check_examples(ids: IdsReport) -> Iterator[Finding]:
    """Yield what is wrong with the ids that are shown as examples."""
    shown = _shown(ids)
    for pair in shown:
        yield from _made(pair)
    yield from _unique(shown, {})


def _shown(ids: IdsReport) -> list[_Pair]:
    return [
        _Pair(f"ids.examples[{n}]", one.id, one.custom_id, one.position)
        for n, one in enumerate(ids.examples)
    ]


def _made(pair: _Pair) -> Iterator[Finding]:
    place, item_id, custom_id, position = pair
    if not LEGAL.fullmatch(custom_id):
        yield _finding("legal", f"{place}.custom_id", f"{custom_id!r} is not legal")
        return
    stem = stem_of(item_id)
    if custom_id.startswith(stem) and _CODE.fullmatch(custom_id[len(stem) :]):
        return
    counted = position is not None and re.search(rf"(?<!\d)0*{position}(?!\d)", custom_id)
    if counted and not re.search(rf"(?<!\d)0*{position}(?!\d)", item_id):
        text = f"{custom_id!r} counts positions: it is not made of {item_id!r}"
        yield _finding("never-from-positions", f"{place}.custom_id", text)
    else:
        text = f"{custom_id!r} is not {stem!r} with a code of 11 letters and digits"
        yield _finding("stable", f"{place}.custom_id", text)


def _unique(pairs: list[_Pair], known: dict[str, str]) -> Iterator[Finding]:
    wire = {custom_id: item_id for item_id, custom_id in known.items()}
    seen: set[str] = set()
    for pair in pairs:
        if pair.id in seen:
            yield _finding("unique", f"{pair.place}.id", f"{pair.id!r} is told twice")
        seen.add(pair.id)
        if known.get(pair.id, pair.custom_id) != pair.custom_id:
            text = f"{pair.id!r} has another custom_id elsewhere: {known[pair.id]!r}"
            yield _finding("unique", f"{pair.place}.custom_id", text)
        owner = wire.setdefault(pair.custom_id, pair.id)
        if owner != pair.id:
            text = f"{pair.custom_id!r} is that of {owner!r}, too"
            yield _finding("unique", f"{pair.place}.custom_id", text)


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)
