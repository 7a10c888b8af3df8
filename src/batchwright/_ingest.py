"""
Reading the caller's items into the store: once each, in chunks, and nothing is sent before the end.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any

from anyio.lowlevel import checkpoint

from batchwright._intake import IntakeRules, as_item, encode_item
from batchwright._refusals import Refusals
from batchwright.errors import ChangedItem, DuplicateItem, IntakeError, OtherRun
from batchwright.events import Event, IntakeProgressed
from batchwright.store import CheckpointStore, Clash, Lease, NewItem, OnChanged, RunInfo
from batchwright.types import ItemLike

#: A chunk becomes durable together: at most so many items, at most so many bytes.
CHUNK_ITEMS = 2_000
CHUNK_BYTES = 4_000_000
#: The loop gets its turn after so many bytes of encoding.
SLICE_BYTES = 500_000
SLICE_ITEMS = 100
#: Shapes of requests that are told apart.
SHAPES = 5

Items = Iterable[ItemLike] | AsyncIterable[ItemLike]


@dataclass(slots=True)
class _Sums:
    passed: int = 0
    known: int = 0
    changed: Clash | None = None
    more_changed: int = 0
    refused: Refusals = field(default_factory=Refusals)


class Ingest:
    """One reading of the caller's items."""

    def __init__(
        self,
        store: CheckpointStore,
        lease: Lease,
        rules: IntakeRules,
        on_changed: OnChanged,
        emit: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._lease = lease
        self._rules = rules
        self._on_changed = on_changed
        self._emit = emit
        self._sums = _Sums()
        self._firsts: dict[tuple[object, ...], NewItem] = {}
        self._chunk: list[NewItem] = []
        self._chunk_bytes = 0
        self._slice_bytes = 0
        self.number = 0

    @property
    def passed(self) -> int:
        """How many items were read."""
        return self._sums.passed

    @property
    def firsts(self) -> Sequence[NewItem]:
        """The first item of each shape."""
        return list(self._firsts.values())

    async def run(
        self, items: Items, before: RunInfo, approve: Callable[[], Awaitable[None]]
    ) -> RunInfo:
        """
        Read *items* to the end; return what the run holds then.

        *approve* is asked when all are read and before they are committed; it may refuse them.

        Raises:
            IntakeError: They cannot be taken as they are. Nothing is sent, nothing is changed.
        """
        self.number = await self._store.begin_intake(self._lease)
        if isinstance(items, AsyncIterable):
            async for given in items:
                if self._take(given):
                    await self._pause()
        else:
            for given in _plain(items):
                if self._take(given):
                    await self._pause()
        if self._chunk:
            await self._stage()
        self._judge(before)
        await approve()
        return await self._store.commit_intake(self._lease, self.number)

    def _take(self, given: Any) -> bool:
        """Encode one more item; tell whether the loop should have its turn."""
        position = self._sums.passed
        item = as_item(given, position)
        row = encode_item(item, position, self._rules)
        self._sums.passed += 1
        if row.refusal is not None:
            self._sums.refused.count(row)
        elif len(self._firsts) < SHAPES:
            self._firsts.setdefault(shape_of(item.params, row.headers), row)
        self._chunk.append(row)
        self._slice_bytes += len(row.body)
        return self._slice_bytes >= SLICE_BYTES or self._sums.passed % SLICE_ITEMS == 0

    async def _pause(self) -> None:
        self._chunk_bytes += self._slice_bytes
        self._slice_bytes = 0
        if len(self._chunk) >= CHUNK_ITEMS or self._chunk_bytes >= CHUNK_BYTES:
            await self._stage()
        else:
            await checkpoint()

    async def _stage(self) -> None:
        chunk, self._chunk, self._chunk_bytes = self._chunk, [], 0
        staged = await self._store.stage(self._lease, self.number, chunk, self._on_changed)
        self._sums.known += staged.known
        for clash in staged.clashes:
            if clash.kind == "duplicate":
                raise DuplicateItem(clash.id, (clash.first_position, clash.position))
            self._sums.more_changed += self._sums.changed is not None
            self._sums.changed = self._sums.changed or clash
        self._emit(IntakeProgressed(run_id=self._rules.run_id, read=self._sums.passed))

    def _judge(self, before: RunInfo) -> None:
        """Refuse what only the whole of the items shows."""
        sums = self._sums
        changed = sums.changed
        if sums.passed and before.items and not sums.known and changed is None:
            raise OtherRun(before.run_id, before.items, sums.passed)
        if changed is not None:
            raise ChangedItem(changed.id, changed.position, before.run_id, sums.more_changed)
        if (mass := sums.refused.verdict(sums.passed)) is not None:
            raise mass


async def each(items: Any) -> AsyncIterator[Any]:
    """Yield from a plain or an asynchronous iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for item in _plain(items):
        yield item


def _plain(items: Any) -> Iterable[Any]:
    """Return *items* where they are a plain iterable of items."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise IntakeError(
            f"items must be an iterable of items, not {type(items).__name__}; for a file use "
            "items_from_jsonl(path) or `batchwright run FILE`"
        )
    if hasattr(items, "columns"):
        raise IntakeError(
            "items is a data frame; make items of its rows: items_from_dataframe(frame, id=…, …)"
        )
    if hasattr(items, "keys"):
        raise IntakeError(
            "items is a mapping; pass its pairs, as in runner.run(items.items()), or a list of "
            '{"custom_id": …, "params": …} dicts'
        )
    return items


def shape_of(params: Any, headers: str) -> tuple[object, ...]:
    """Return what makes requests alike: model, betas, tools, thinking."""
    if not isinstance(params, dict | Mapping):
        return ()
    thinking = params.get("thinking")
    kind = thinking.get("type") if thinking and isinstance(thinking, Mapping) else None
    model = params.get("model")
    return (model if isinstance(model, str) else None, headers, bool(params.get("tools")), kind)
